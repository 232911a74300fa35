package seccomp

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Verdicts as the tests spell them; anything else is the name of an errno.
const (
	allowed  = "allow"
	notified = "notify"
)

// pretended is a call that isn't run and returns 0.
const pretended = "pretended"

func spell(v uint32) string {
	if v == unix.SECCOMP_RET_ERRNO {
		return pretended
	}
	switch v & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return allowed
	case unix.SECCOMP_RET_USER_NOTIF:
		return notified
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(unix.Errno(v & unix.SECCOMP_RET_DATA))
	}
	return fmt.Sprintf("%#x", v)
}

func (a *arch) number(name string) (int32, bool) {
	for i := range table {
		for _, c := range table[i].calls {
			if c.name == name && a.nr(c) != none {
				return int32(a.nr(c)), true
			}
		}
	}
	return 0, false
}

// junk in the high word of an int parameter, which the kernel drops.
const junk = 0xdeadbeef << 32

// atFdcwd is AT_FDCWD as an int in a register, zero-extended.
const atFdcwd = 0xffffff9c

// minus1 is -1 as an int in a register, zero-extended.
const minus1 = 0xffffffff

type args = [6]uint64

// The verdicts with a supervisor and without, for every option that matters.
// "refuse X" is notify with a supervisor, X without.
func TestRules(t *testing.T) {
	none, loop, full := Options{}, Options{Network: NetLoopback}, Options{Network: NetFull}
	old := Options{Signals: true, Truncate: true}
	all := []Options{none, loop, full, old}
	names := []Options{{Names: true}, {Names: true, Network: NetFull}, {Names: true, Signals: true, Truncate: true}}
	rows := []struct {
		call     string
		args     args
		under    []Options
		with     string // with a supervisor
		without  string
		sentence string
	}{
		// Families without a look at arguments: one of each kind; the rest is
		// TestTable_ClassesHold.
		{"openat", args{}, all, allowed, allowed, "opening is Landlock's"},
		{"openat", args{atFdcwd, 1, unix.O_RDWR | unix.O_CREAT}, all, allowed, allowed, "making too"},
		{"openat", args{atFdcwd, 1, unix.O_RDONLY | unix.O_CLOEXEC | unix.O_DIRECTORY}, names, allowed, allowed, "reading is nobody else's"},
		{"openat", args{atFdcwd, unix.O_CREAT, unix.O_PATH | junk, unix.O_CREAT}, names, allowed, allowed, "only the flags count"},
		{"openat", args{atFdcwd, 1, unix.O_RDONLY | unix.O_CREAT}, names, notified, allowed, "making"},
		{"openat", args{atFdcwd, 1, unix.O_WRONLY | unix.O_APPEND | junk}, names, notified, allowed, "writing, junk"},
		{"openat", args{atFdcwd, 1, unix.O_RDWR}, names, notified, allowed, "writing and reading"},
		{"openat", args{atFdcwd, 1, unix.O_TMPFILE | unix.O_RDWR}, names, notified, allowed, "making without a name"},
		{"open", args{1, unix.O_RDONLY, unix.O_CREAT}, names, allowed, allowed, "reading by the old call"},
		{"open", args{1, unix.O_CREAT | unix.O_EXCL | junk}, names, notified, allowed, "making by the old call"},
		{"open", args{1, unix.O_CREAT | unix.O_EXCL}, all, allowed, allowed, "making by the old call"},
		{"creat", args{1}, names, notified, allowed, "creat"},
		{"creat", args{1}, all, allowed, allowed, "creat"},
		{"mkdirat", args{atFdcwd, 1}, names, notified, allowed, "directories"},
		{"rename", args{1, 1}, names, notified, allowed, "rename"},
		{"renameat2", args{atFdcwd, 1, atFdcwd, 1, 0}, names, notified, allowed, "rename"},
		{"renameat2", args{atFdcwd, 1, atFdcwd, 1, 0}, all, allowed, allowed, "rename"},
		{"unlinkat", args{atFdcwd, 1}, names, notified, allowed, "removing"},
		{"unlinkat", args{atFdcwd, 1, unix.AT_REMOVEDIR}, names, notified, allowed, "removing directories"},
		{"rmdir", args{1}, all, allowed, allowed, "removing directories"},
		{"openat2", args{}, names, allowed, allowed, "its flags are in memory"},
		{"linkat", args{}, names, allowed, allowed, "links are Landlock's"},
		{"symlinkat", args{}, names, allowed, allowed, "symbolic links too"},
		{"chmod", args{}, all, notified, allowed, "mode is supervised"},
		{"mount", args{}, all, notified, "EPERM", "mounting is refused"},
		{"io_uring_setup", args{}, all, "ENOSYS", "ENOSYS", "io_uring doesn't exist"},

		{"socket", args{unix.AF_UNIX, unix.SOCK_STREAM}, all, allowed, allowed, "unix sockets"},
		{"socket", args{unix.AF_UNIX | junk, unix.SOCK_SEQPACKET}, all, allowed, allowed, "unix with junk"},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, all, allowed, allowed, "routes"},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE | junk}, all, allowed, allowed, "routes, junk"},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, all, notified, "EACCES", "uevents"},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, all, notified, "EACCES", "netfilter"},
		{"socket", args{unix.AF_NETLINK, unix.SOCK_RAW, 1 << 32}, all, allowed, allowed, "protocol is an int"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM}, []Options{none, old}, notified, "EACCES", "no TCP without network"},
		{"socket", args{unix.AF_INET6, unix.SOCK_DGRAM}, []Options{none, old}, notified, "EACCES", "no UDP without network"},
		{"socket", args{unix.AF_INET | junk, unix.SOCK_STREAM}, []Options{none}, notified, "EACCES", "nor with junk"},
		{"socket", args{unix.AF_UNIX | 1<<32, unix.SOCK_STREAM}, []Options{none}, allowed, allowed, "family is an int"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM}, []Options{loop, full}, allowed, allowed, "TCP"},
		{"socket", args{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK, unix.IPPROTO_TCP}, []Options{loop, full}, allowed, allowed, "TCP, flags"},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC, unix.IPPROTO_UDP}, []Options{loop, full}, allowed, allowed, "UDP"},
		{"socket", args{unix.AF_INET | junk, unix.SOCK_DGRAM | junk, junk}, []Options{loop, full}, allowed, allowed, "UDP, junk"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM | 0x10}, []Options{loop, full}, allowed, allowed, "a flag that doesn't exist is the kernel's to refuse"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, []Options{loop}, "EPROTONOSUPPORT", "EPROTONOSUPPORT", "multipath"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, []Options{full}, allowed, allowed, "multipath"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, []Options{none}, notified, "EACCES", "multipath"},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, []Options{full}, allowed, allowed, "ping"},
		{"socket", args{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMPV6}, []Options{full}, allowed, allowed, "ping 6"},
		{"socket", args{unix.AF_INET6, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, []Options{full}, notified, "EACCES", "the other's ping"},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, []Options{none, loop}, notified, "EACCES", "no ping"},
		{"socket", args{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDPLITE}, all, notified, "EACCES", "UDP-Lite"},
		{"socket", args{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, all, notified, "EACCES", "SCTP"},
		{"socket", args{unix.AF_INET, unix.SOCK_SEQPACKET, unix.IPPROTO_SCTP}, all, notified, "EACCES", "SCTP"},
		{"socket", args{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, all, notified, "EACCES", "raw"},
		{"socket", args{unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_RAW}, all, notified, "EACCES", "raw"},
		{"socket", args{unix.AF_INET, unix.SOCK_PACKET, unix.ETH_P_ALL}, all, notified, "EACCES", "packet by its old name"},
		{"socket", args{unix.AF_PACKET, unix.SOCK_RAW}, all, notified, "EACCES", "packet"},
		{"socket", args{unix.AF_ALG, unix.SOCK_SEQPACKET}, all, notified, "EACCES", "kernel crypto"},
		{"socket", args{unix.AF_VSOCK, unix.SOCK_STREAM}, all, notified, "EACCES", "the hypervisor"},
		{"socket", args{unix.AF_XDP, unix.SOCK_RAW}, all, notified, "EACCES", "XDP"},
		{"socket", args{unix.AF_BLUETOOTH, unix.SOCK_RAW}, all, notified, "EACCES", "bluetooth"},
		{"socket", args{unix.AF_KEY, unix.SOCK_RAW}, all, notified, "EACCES", "ipsec keys"},
		{"socket", args{0, unix.SOCK_STREAM}, all, notified, "EACCES", "family 0"},
		{"socket", args{minus1, unix.SOCK_STREAM}, all, notified, "EACCES", "family -1"},
		{"socketpair", args{unix.AF_UNIX | junk, unix.SOCK_STREAM}, all, allowed, allowed, "unix pairs"},
		{"socketpair", args{unix.AF_TIPC, unix.SOCK_STREAM}, all, notified, "EACCES", "TIPC pairs"},
		{"connect", args{3}, all, notified, allowed, "connect"},
		{"bind", args{3}, all, notified, allowed, "bind"},
		{"sendto", args{3, 1, 1, 0, 0, 0}, all, allowed, allowed, "send"},
		{"sendto", args{3, 1, 1, 0, 0x1000, 16}, all, notified, allowed, "sendto an address"},
		{"sendto", args{3, 1, 1, 0, 1 << 32, 16}, all, notified, allowed, "an address above 4 GiB"},
		{"sendmsg", args{3}, all, notified, allowed, "sendmsg"},
		{"sendmmsg", args{3}, all, notified, allowed, "sendmmsg"},
		{"listen", args{3}, []Options{loop}, notified, allowed, "listen on the loopback"},
		{"listen", args{3}, []Options{none, full, old}, allowed, allowed, "listen"},

		{"clone", args{unix.CLONE_VM | unix.CLONE_VFORK | uint64(unix.SIGCHLD)}, all, allowed, allowed, "fork"},
		{"clone", args{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID}, all, allowed, allowed, "a thread"},
		{"clone", args{0x80}, all, allowed, allowed, "an exit signal isn't a time namespace"},
		{"clone", args{unix.CLONE_NEWUSER << 32}, all, allowed, allowed, "the kernel drops the high word"},
		{"clone", args{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, all, notified, "EPERM", "user namespace"},
		{"clone", args{unix.CLONE_NEWUSER | junk}, all, notified, "EPERM", "user namespace, junk"},
		{"clone", args{unix.CLONE_NEWNS}, all, notified, "EPERM", "mount namespace"},
		{"clone", args{unix.CLONE_NEWPID}, all, notified, "EPERM", "pid namespace"},
		{"clone", args{unix.CLONE_NEWNET}, all, notified, "EPERM", "network namespace"},
		{"clone", args{unix.CLONE_NEWIPC}, all, notified, "EPERM", "ipc namespace"},
		{"clone", args{unix.CLONE_NEWUTS}, all, notified, "EPERM", "uts namespace"},
		{"clone", args{unix.CLONE_NEWCGROUP}, all, notified, "EPERM", "cgroup namespace"},
		{"clone3", args{1, 88}, all, "ENOSYS", "ENOSYS", "clone3"},
		{"unshare", args{0}, all, allowed, allowed, "nothing"},
		{"unshare", args{unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM}, all, allowed, allowed, "own tables"},
		{"unshare", args{unix.CLONE_NEWUSER}, all, notified, "EPERM", "user namespace"},
		{"unshare", args{unix.CLONE_NEWTIME}, all, notified, "EPERM", "time namespace"},
		{"unshare", args{unix.CLONE_FS | unix.CLONE_NEWNS}, all, notified, "EPERM", "mount namespace"},
		{"unshare", args{1}, all, notified, "EPERM", "a flag that doesn't exist yet"},
		{"unshare", args{1 << 40}, all, notified, "EPERM", "a high flag that doesn't exist yet"},
		{"setns", args{3}, all, notified, "EPERM", "setns"},

		{"ioctl", args{0, unix.TCGETS}, all, allowed, allowed, "terminal attributes"},
		{"ioctl", args{0, unix.TIOCSTI << 32}, all, allowed, allowed, "the request is an unsigned int"},
		{"ioctl", args{0, unix.TIOCSTI}, all, "EPERM", "EPERM", "typing for others"},
		{"ioctl", args{0, unix.TIOCSTI | junk}, all, "EPERM", "EPERM", "typing for others, junk"},
		{"ioctl", args{0, unix.TIOCSTI | 0xffffffff<<32}, all, "EPERM", "EPERM", "typing for others, sign-extended"},
		{"ioctl", args{0, unix.TIOCLINUX}, all, "EPERM", "EPERM", "pasting for others"},
		{"ioctl", args{0, unix.TIOCCONS | junk}, all, "EPERM", "EPERM", "console"},
		{"ioctl", args{0, unix.TIOCSETD | junk}, all, "EPERM", "EPERM", "line discipline"},
		{"ioctl", args{0, unix.FS_IOC_GETFLAGS}, all, allowed, allowed, "lsattr"},
		{"ioctl", args{0, unix.FS_IOC_SETFLAGS}, all, notified, allowed, "chattr"},
		{"ioctl", args{0, fsIoc32SetFlags | junk}, all, notified, allowed, "chattr by the int's request"},
		{"ioctl", args{0, fsIocFsSetXattr | junk}, all, notified, allowed, "project, flags"},
		{"ioctl", args{0, fsIocSetVersion}, all, notified, allowed, "version"},
		{"ioctl", args{0, unix.FS_IOC_SET_ENCRYPTION_POLICY}, all, notified, allowed, "encryption"},
		{"ioctl", args{0, unix.FS_IOC_ENABLE_VERITY}, all, notified, allowed, "verity"},
		{"ioctl", args{0, fatSetAttributes}, all, notified, allowed, "FAT attributes"},
		{"ioctl", args{0, btrfsSnapDestroy | junk}, all, "EPERM", "EPERM", "removing a subvolume"},
		{"ioctl", args{0, btrfsSubvolCreateV2}, all, "EPERM", "EPERM", "making a subvolume"},
		{"ioctl", args{0, 0xc0c89425}, all, "EPERM", "EPERM", "what a subvolume was received from"},
		{"ioctl", args{0, 0xc0c09425 | junk}, all, "EPERM", "EPERM", "the same with the structure of 32-bit programs"},
		{"ioctl", args{0, 0x40186f04}, all, "EPERM", "EPERM", "a name by a reflink of OCFS2"},
		{"ioctl", args{0, 0x50009402}, all, "EPERM", "EPERM", "where a file lies, btrfs"},
		{"ioctl", args{0, 0x40309410}, all, "EPERM", "EPERM", "where a part of a file lies, btrfs"},
		{"ioctl", args{0, 0x6609}, all, "EPERM", "EPERM", "a file's block map, ext4"},
		{"ioctl", args{0, 0x4004f50d}, all, "EPERM", "EPERM", "a file's pin, f2fs"},
		{"ioctl", args{0, 0x40289702}, all, "EPERM", "EPERM", "a file's layout, Ceph"},
		{"ioctl", args{0, 0x40289705}, all, "EPERM", "EPERM", "a directory's layout, Ceph"},
		{"ioctl", args{0, 0x8008bc40}, all, "EPERM", "EPERM", "inherited attributes, bcachefs"},
		{"ioctl", args{0, unix.FICLONE}, all, allowed, allowed, "a copy by reference needs a descriptor for writing"},
		{"ioctl", args{0, unix.FS_IOC_REMOVE_ENCRYPTION_KEY}, all, "EPERM", "EPERM", "locking others' files"},
		{"ioctl", args{0, fioSetOwn | junk}, []Options{old}, "EPERM", "EPERM", "owner of a socket"},
		{"ioctl", args{0, siocSPGrp}, []Options{old}, "EPERM", "EPERM", "owner of a socket"},
		{"ioctl", args{0, fioSetOwn}, []Options{none, full}, allowed, allowed, "owner of a socket, scoped"},
		{"fcntl", args{0, unix.F_SETFL}, all, allowed, allowed, "flags"},
		{"fcntl", args{0, unix.F_SETOWN | junk}, []Options{old}, "EPERM", "EPERM", "owner of a descriptor"},
		{"fcntl", args{0, unix.F_SETOWN_EX}, []Options{old}, "EPERM", "EPERM", "owner of a descriptor"},
		{"fcntl", args{0, unix.F_SETSIG | junk, 9}, []Options{old}, "EPERM", "EPERM", "another signal"},
		{"fcntl", args{0, unix.F_SETFL, unix.O_ASYNC}, []Options{old}, "EPERM", "EPERM", "a terminal takes its foreground for the owner"},
		{"fcntl", args{0, unix.F_SETFL | junk, unix.O_ASYNC | unix.O_NONBLOCK | unix.O_RDWR | junk}, []Options{old}, "EPERM", "EPERM", "among others"},
		{"fcntl", args{0, unix.F_SETFL, unix.O_NONBLOCK | unix.O_APPEND | unix.O_RDWR | unix.O_DIRECT}, all, allowed, allowed, "not to wait"},
		{"fcntl", args{0, unix.F_SETFL, unix.O_ASYNC << 32}, all, allowed, allowed, "the high word is no flag"},
		{"fcntl", args{0, unix.F_GETFL, unix.O_ASYNC}, all, allowed, allowed, "a look at flags"},
		{"fcntl", args{0, unix.F_SETFL, unix.O_ASYNC}, []Options{none, full}, allowed, allowed, "scoped"},
		{"ioctl", args{0, fioAsync | junk}, []Options{old}, "EPERM", "EPERM", "the same by ioctl"},
		{"ioctl", args{0, fioAsync}, []Options{none, full}, allowed, allowed, "scoped"},
		{"ioctl", args{0, 0x5421}, all, allowed, allowed, "not to wait, by ioctl"},
		{"fcntl", args{0, unix.F_SETOWN}, []Options{none, loop}, allowed, allowed, "owner, scoped"},

		{"setsockopt", args{3, unix.SOL_IP | junk, unix.IP_OPTIONS | junk}, []Options{loop}, "EPERM", "EPERM", "source route"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_RTHDR}, []Options{loop}, "EPERM", "EPERM", "routing header"},
		{"setsockopt", args{3, unix.SOL_IPV6, 6}, []Options{loop}, "EPERM", "EPERM", "routing header by the old sticky options"},
		{"setsockopt", args{3, unix.SOL_IP, unix.IP_ADD_MEMBERSHIP}, []Options{loop}, "EPERM", "EPERM", "multicast group"},
		{"setsockopt", args{3, unix.SOL_IPV6, 42}, []Options{loop}, "EPERM", "EPERM", "multicast group"},
		{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_BINDTODEVICE}, []Options{loop}, "EPERM", "EPERM", "device"},
		{"setsockopt", args{3, unix.SOL_SOCKET, 62}, []Options{loop}, "EPERM", "EPERM", "device by number"},
		{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_MARK}, []Options{loop}, "EPERM", "EPERM", "mark"},
		{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_DONTROUTE}, []Options{loop}, "EPERM", "EPERM", "no gateway"},
		{"setsockopt", args{3, unix.SOL_IP, 50}, []Options{loop}, "EPERM", "EPERM", "IP_UNICAST_IF"},
		{"setsockopt", args{3, unix.SOL_IP, unix.IP_MULTICAST_IF}, []Options{loop}, "EPERM", "EPERM", "device of multicast"},
		{"setsockopt", args{3, unix.SOL_IPV6, 76}, []Options{loop}, "EPERM", "EPERM", "IPV6_UNICAST_IF"},
		{"setsockopt", args{3, unix.SOL_IPV6 | junk, unix.IPV6_PKTINFO | junk}, []Options{loop}, "EPERM", "EPERM", "sticky device and source"},
		{"setsockopt", args{3, unix.SOL_IPV6, 32}, []Options{loop}, "EPERM", "EPERM", "IPV6_FLOWLABEL_MGR"},
		{"setsockopt", args{3, unix.SOL_IPV6, 33}, []Options{loop}, "EPERM", "EPERM", "IPV6_FLOWINFO_SEND"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_NEXTHOP}, []Options{loop}, "EPERM", "EPERM", "next hop"},
		{"setsockopt", args{3, unix.SOL_UDP, unix.UDP_ENCAP}, []Options{loop}, "EPERM", "EPERM", "another protocol"},
		{"setsockopt", args{3, unix.SOL_TCP, unix.TCP_ULP | junk}, []Options{loop}, "EPERM", "EPERM", "another protocol"},
		{"setsockopt", args{3, unix.SOL_MPTCP, 1}, []Options{loop}, "EPERM", "EPERM", "a level that isn't needed"},
		{"setsockopt", args{3, unix.SOL_SOCKET, 1000}, []Options{loop}, "EPERM", "EPERM", "an option of a coming kernel"},
		{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_REUSEADDR}, all, allowed, allowed, "reuse"},
		{"setsockopt", args{3, unix.SOL_SOCKET | junk, unix.SO_KEEPALIVE | junk}, all, allowed, allowed, "keep alive, junk"},
		{"setsockopt", args{3, unix.SOL_SOCKET, unix.SO_BROADCAST}, all, allowed, allowed, "Go sets it on UDP"},
		{"setsockopt", args{3, unix.SOL_TCP, unix.TCP_NODELAY}, all, allowed, allowed, "no delay"},
		{"setsockopt", args{3, unix.SOL_TCP, unix.TCP_USER_TIMEOUT}, all, allowed, allowed, "timeout"},
		{"setsockopt", args{3, unix.SOL_UDP, unix.UDP_GRO}, all, allowed, allowed, "QUIC"},
		{"setsockopt", args{3, unix.SOL_IP, unix.IP_TTL}, all, allowed, allowed, "ttl"},
		{"setsockopt", args{3, unix.SOL_IP, unix.IP_RECVERR}, all, allowed, allowed, "glibc's resolver"},
		{"setsockopt", args{3, unix.SOL_IP, 49}, all, allowed, allowed, "Java sets IP_MULTICAST_ALL"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_V6ONLY}, all, allowed, allowed, "Go, node"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_RECVPKTINFO}, all, allowed, allowed, "what came with a packet"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS}, all, allowed, allowed, "Java"},
		{"setsockopt", args{3, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK}, all, allowed, allowed, "netlink"},
		{"setsockopt", args{3, unix.SOL_IPV6, unix.IPV6_PKTINFO}, []Options{none, full}, allowed, allowed, "nothing to lead around"},
		{"setsockopt", args{3, unix.SOL_IP, unix.IP_OPTIONS}, []Options{none, full}, allowed, allowed, "nothing to lead around"},
		{"prctl", args{unix.PR_SET_DUMPABLE, 0}, all, pretended, allowed, "not dumpable"},
		{"prctl", args{unix.PR_SET_DUMPABLE | junk, 0}, all, pretended, allowed, "not dumpable, junk"},
		{"prctl", args{unix.PR_SET_DUMPABLE, 1}, all, allowed, allowed, "dumpable"},
		{"prctl", args{unix.PR_SET_NAME, 0}, all, allowed, allowed, "a name"},
		{"setpriority", args{unix.PRIO_PROCESS, 0, 19}, all, allowed, allowed, "nice"},
		{"setpriority", args{unix.PRIO_PROCESS | junk, junk, 19}, all, allowed, allowed, "nice, junk"},
		{"setpriority", args{unix.PRIO_PROCESS, 1, 19}, all, notified, allowed, "another's"},
		{"setpriority", args{unix.PRIO_PROCESS, minus1, 19}, all, notified, allowed, "-1"},
		{"setpriority", args{unix.PRIO_PGRP, 0, 19}, all, "EPERM", "EPERM", "a group's"},
		{"setpriority", args{unix.PRIO_USER | junk, 0, 19}, all, "EPERM", "EPERM", "a user's"},
		{"ioprio_set", args{1, 0, 1}, all, allowed, allowed, "own I/O"},
		{"ioprio_set", args{1 | junk, 7, 1}, all, notified, allowed, "another's I/O"},
		{"ioprio_set", args{2, 0, 1}, all, "EPERM", "EPERM", "a group's I/O"},
		{"ioprio_set", args{3, 0, 1}, all, "EPERM", "EPERM", "a user's I/O"},
		{"sched_setaffinity", args{0 | junk, 8, 1}, all, allowed, allowed, "own"},
		{"sched_setaffinity", args{7, 8, 1}, all, notified, allowed, "another's"},
		{"sched_setscheduler", args{7 | junk}, all, notified, allowed, "another's"},
		{"sched_setparam", args{7}, all, notified, allowed, "another's"},
		{"sched_setattr", args{7}, all, notified, allowed, "another's"},
		{"sched_setattr", args{0}, all, allowed, allowed, "own"},
		{"prlimit64", args{0, unix.RLIMIT_NOFILE, 0x1000}, all, allowed, allowed, "own limit"},
		{"prlimit64", args{0, unix.RLIMIT_RTTIME, 0, 0x1000}, all, allowed, allowed, "a look at the mark"},
		{"prlimit64", args{7, unix.RLIMIT_NOFILE, 0, 0x1000}, all, allowed, allowed, "a look at another's"},
		{"prlimit64", args{7, unix.RLIMIT_NOFILE, 0x1000}, all, notified, allowed, "another's limit"},
		{"prlimit64", args{7, unix.RLIMIT_NOFILE, 1 << 32}, all, notified, allowed, "a limit above 4 GiB"},
		{"prlimit64", args{0, unix.RLIMIT_RTTIME, 0x1000}, all, "EPERM", "EPERM", "the mark"},
		{"prlimit64", args{0, unix.RLIMIT_RTTIME | junk, 1 << 32}, all, "EPERM", "EPERM", "the mark, junk"},
		{"prlimit64", args{7, unix.RLIMIT_RTTIME, 0x1000}, all, "EPERM", "EPERM", "another's mark"},
		{"setrlimit", args{unix.RLIMIT_RTTIME | junk, 0x1000}, all, "EPERM", "EPERM", "the mark by its old call"},
		{"setrlimit", args{unix.RLIMIT_CORE, 0x1000}, all, allowed, allowed, "a limit by its old call"},

		{"kill", args{1, 9}, []Options{none, loop, full}, allowed, allowed, "scoped"},
		{"kill", args{1, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"tkill", args{1, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"tgkill", args{1, 1, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"tgkill", args{1, 1, uint64(unix.SIGURG) | junk}, []Options{old}, allowed, allowed, "preemption"},
		{"rt_sigqueueinfo", args{1, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"rt_tgsigqueueinfo", args{1, 1, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"pidfd_send_signal", args{3, 9}, []Options{old}, notified, allowed, "unscoped"},
		{"truncate", args{}, []Options{old}, notified, allowed, "truncate by path, old Landlock"},
		{"truncate", args{}, []Options{none, loop, full}, allowed, allowed, "truncate by path"},
	}
	for _, a := range []*arch{amd64, arm64} {
		for _, r := range rows {
			nr, ok := a.number(r.call)
			if !ok {
				continue
			}
			for _, o := range r.under {
				for listener, want := range map[bool]string{true: r.with, false: r.without} {
					o.Listener = listener
					prog, err := a.compile(o)
					if err != nil {
						t.Fatal(err)
					}
					v, err := Run(prog, Data{Nr: nr, Arch: a.audit, Args: r.args})
					if err != nil {
						t.Fatal(err)
					}
					if got := spell(v); got != want {
						t.Errorf("%s %s(%#x) (%s) under %+v: %s, want %s", a.name, r.call, r.args, r.sentence, o, got, want)
					}
				}
			}
		}
	}
}

// The simplest families: whatever the arguments, the class decides. And every
// verdict of any call fits what Explain says of it.
func TestTable_ClassesHold(t *testing.T) {
	for _, a := range []*arch{amd64, arm64} {
		for i := range optionSets {
			o := optionsAt(i)
			prog, err := a.compile(o)
			if err != nil {
				t.Fatal(err)
			}
			for nr := int32(0); nr < 600; nr++ {
				about := a.explain(nr)
				for _, x := range []uint64{0, 1, 2, junk, ^uint64(0)} {
					v, err := Run(prog, Data{Nr: nr, Arch: a.audit, Args: args{x, x, x, x, x, x}})
					if err != nil {
						t.Fatal(err)
					}
					got, refusal := spell(v), unix.ErrnoName(about.Errno)
					var want string
					switch {
					case about.Class == Allow:
						want = allowed
					case about.Class == Supervise && o.Listener, about.Class == Refuse && o.Listener:
						want = notified
					case about.Class == Supervise:
						want = allowed
					case about.Class == Conditional:
						if strings.Contains(allowed+notified+refusal, got) {
							continue
						}
						want = refusal
					default:
						want = refusal
					}
					if got != want {
						t.Errorf("%s %d %s under %+v: %s, want %s", a.name, nr, about.Name, o, got, want)
					}
				}
			}
		}
	}
}

// Only the architecture's own entry has system calls.
func TestFilter_OtherEntriesHaveNoCalls(t *testing.T) {
	for _, a := range []*arch{amd64, arm64} {
		for i := range optionSets {
			prog, err := a.compile(optionsAt(i))
			if err != nil {
				t.Fatal(err)
			}
			verdict := func(d Data) string {
				v, err := Run(prog, d)
				if err != nil {
					t.Fatal(err)
				}
				return spell(v)
			}
			for _, nr := range []int32{0, 1, 20, 39, 172, 4096, -1} {
				for _, other := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, 0, ^uint32(0), amd64.audit ^ arm64.audit ^ a.audit} {
					if got := verdict(Data{Nr: nr, Arch: other}); got != "ENOSYS" {
						t.Errorf("%s: call %d by %#x: %s", a.name, nr, other, got)
					}
				}
				if got := verdict(Data{Nr: nr | 0x40000000, Arch: a.audit}); got != "ENOSYS" {
					t.Errorf("%s: x32 call %d: %s", a.name, nr, got)
				}
			}
			// x32's own numbers, and the range without any.
			for _, nr := range []int32{512, 520, 547, 600, 1 << 20, 0x3fffffff, -1, -2, -0x80000000} {
				if got := verdict(Data{Nr: nr, Arch: a.audit}); got != "ENOSYS" {
					t.Errorf("%s: call %d: %s", a.name, nr, got)
				}
			}
			getppid, _ := a.number("getppid")
			if got := verdict(Data{Nr: getppid, Arch: a.audit}); got != allowed {
				t.Errorf("%s: getppid: %s", a.name, got)
			}
		}
	}
}

func TestWithMark_LetsOnlyTheSecretSetTheMark(t *testing.T) {
	prog, err := Build(Options{})
	if err != nil {
		t.Fatal(err)
	}
	secret := [2]uint64{0x1122334455667788, 0x99aabbccddeeff00}
	marked := WithMark(prog, secret)
	set := func(a ...uint64) Data {
		d := Data{Nr: unix.SYS_PRLIMIT64, Arch: native.audit}
		copy(d.Args[:], a)
		return d
	}
	for _, tt := range []struct {
		name string
		d    Data
		ok   bool
	}{
		{"the secret", set(0, unix.RLIMIT_RTTIME, 1, 0, secret[0], secret[1]), true},
		{"no secret", set(0, unix.RLIMIT_RTTIME, 1), false},
		{"half of it", set(0, unix.RLIMIT_RTTIME, 1, 0, secret[0]), false},
		{"the other half", set(0, unix.RLIMIT_RTTIME, 1, 0, 0, secret[1]), false},
		{"low words only", set(0, unix.RLIMIT_RTTIME, 1, 0, secret[0]&0xffffffff, secret[1]&0xffffffff), false},
		{"another process", set(7, unix.RLIMIT_RTTIME, 1, 0, secret[0], secret[1]), false},
		{"clone3 with the secret", Data{Nr: unix.SYS_CLONE3, Arch: native.audit, Args: [6]uint64{1, 88, 0, 0, secret[0], secret[1]}}, true},
		{"clone3 without", Data{Nr: unix.SYS_CLONE3, Arch: native.audit, Args: [6]uint64{1, 88}}, false},
		{"clone3 of another architecture", Data{Nr: unix.SYS_CLONE3, Arch: 1, Args: [6]uint64{1, 88, 0, 0, secret[0], secret[1]}}, false},
	} {
		got, err := Run(marked, tt.d)
		if err != nil {
			t.Fatal(err)
		}
		if (got == unix.SECCOMP_RET_ALLOW) != tt.ok {
			t.Errorf("%s: got %#x, want allowed: %v", tt.name, got, tt.ok)
		}
	}
	for nr := int32(0); nr < 500; nr++ {
		d := Data{Nr: nr, Arch: native.audit, Args: [6]uint64{1, 2, 3, 4, 5, 6}}
		a, _ := Run(prog, d)
		b, _ := Run(marked, d)
		if a != b {
			t.Errorf("system call %d: %#x with the preamble, %#x without", nr, b, a)
		}
	}
}
