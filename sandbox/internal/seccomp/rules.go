package seccomp

import "golang.org/x/sys/unix"

// The rules of the Conditional families. Two things hold in all of them:
//
// Parameters of type int or unsigned int are compared by the low word of their
// register alone, because the kernel drops the high word: a filter that looked
// at all 64 bits would be passed by garbage there. Pointers are compared by
// both halves.
//
// Every case that isn't named falls to the stricter side.

func allow() *node { return ret(unix.SECCOMP_RET_ALLOW) }

// notify is a call that the supervisor performs. Without one it is allowed: a
// nested dshx can't have a listener (EBUSY), and the outer one's filter, which
// is still in force, notifies the outer supervisor.
func notify(o Options) *node {
	if o.Listener {
		return ret(unix.SECCOMP_RET_USER_NOTIF)
	}
	return allow()
}

// refuse is a call that fails with e, through the supervisor where there is
// one, so that it is recorded as a denial.
func refuse(o Options, e unix.Errno) *node {
	if o.Listener {
		return ret(unix.SECCOMP_RET_USER_NOTIF)
	}
	return errno(e)
}

// decide is the decision of f under o.
func (f *family) decide(o Options) *node {
	switch f.class {
	case Allow:
		return allow()
	case Supervise:
		return notify(o)
	case Refuse:
		return refuse(o, f.errno)
	case Conditional:
		return f.args(o)
	default:
		return errno(f.errno)
	}
}

// newNamespace has every CLONE_NEW flag that clone(2) can carry. CLONE_NEWTIME
// (0x80) is none of them: there it is part of the exit signal.
const newNamespace = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// clone(flags, …): the kernel takes the low 32 bits of flags.
func cloneRule(o Options) *node {
	return choose(low(0), 0, allow(), hasAny(refuse(o, unix.EPERM), newNamespace))
}

// unshare(unsigned long flags): what makes no namespace is named, all else,
// flags of coming kernels too, is refused.
func unshareRule(o Options) *node {
	const harmless = unix.CLONE_THREAD | unix.CLONE_FS | unix.CLONE_SIGHAND | unix.CLONE_VM |
		unix.CLONE_FILES | unix.CLONE_SYSVSEM
	no := refuse(o, unix.EPERM)
	return choose(low(0), 0,
		choose(high(0), 0, no, is(allow(), 0)...),
		hasAny(no, ^uint32(harmless)))
}

// Requests that golang.org/x/sys/unix doesn't name (linux/fs.h, linux/btrfs.h,
// linux/f2fs.h, linux/msdos_fs.h, fs/ext4/ext4.h, fs/ceph/ioctl.h,
// fs/ocfs2/ocfs2_fs.h, fs/bcachefs/bcachefs_ioctl.h, asm-generic/ioctls.h and
// sockios.h). FS_IOC32_ are the
// same with the int that they really take.
const (
	fsIocSetVersion   = 0x40087602
	fsIoc32SetFlags   = 0x40046602
	fsIoc32SetVersion = 0x40047602
	fsIocFsSetXattr   = 0x401c5820
	ext4IocSetVersion = 0x40086604
	ext432SetVersion  = 0x40046604
	fatSetAttributes  = 0x40047211

	btrfsSnapCreate        = 0x50009401
	btrfsSubvolCreate      = 0x5000940e
	btrfsSnapDestroy       = 0x5000940f
	btrfsSnapCreateV2      = 0x50009417
	btrfsSubvolCreateV2    = 0x50009418
	btrfsSnapDestroyV2     = 0x5000943f
	btrfsSubvolSetFlags    = 0x4008941a
	btrfsSetReceivedSubvol = 0xc0c89425
	// The structure of 32-bit programs, which a 64-bit kernel takes from all.
	btrfs32SetReceivedSubvol = 0xc0c09425
	btrfsDefrag              = 0x50009402
	btrfsDefragRange         = 0x40309410

	ext4Migrate       = 0x6609
	f2fsSetPinFile    = 0x4004f50d
	cephSetLayout     = 0x40289702
	cephSetPolicy     = 0x40289705
	ocfs2Reflink      = 0x40186f04
	bcachefsReinherit = 0x8008bc40

	fioAsync  = 0x5452
	fioSetOwn = 0x8901
	siocSPGrp = 0x8902
)

// ioctl(int fd, unsigned int request, …).
func ioctlRule(o Options) *node {
	no := errno(unix.EPERM)
	cases := is(no,
		// Input for whoever reads the terminal next, which may be the person's
		// shell.
		unix.TIOCSTI, unix.TIOCLINUX,
		// The console's output; another line discipline, whose drivers load on
		// demand (n_hdlc, n_gsm and their faults).
		unix.TIOCCONS, unix.TIOCSETD,
		// Makes and removes names (subvolumes, OCFS2's reflinks) by a descriptor
		// that is open for reading, without the hooks that Landlock judges names by.
		btrfsSnapCreate, btrfsSnapCreateV2, btrfsSubvolCreate, btrfsSubvolCreateV2,
		btrfsSnapDestroy, btrfsSnapDestroyV2, btrfsSubvolSetFlags,
		btrfsSetReceivedSubvol, btrfs32SetReceivedSubvol, ocfs2Reflink,
		// How a file lies on its disk, by such a descriptor too: not contents, but
		// neither what reading gives. Nothing in daily use asks for it.
		btrfsDefrag, btrfsDefragRange, ext4Migrate, f2fsSetPinFile,
		cephSetLayout, cephSetPolicy, bcachefsReinherit,
		// A whole file system's keys: removing one locks the user's other files.
		unix.FS_IOC_ADD_ENCRYPTION_KEY, unix.FS_IOC_REMOVE_ENCRYPTION_KEY,
		unix.FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS)
	// Attributes of a file, by a descriptor that is open for reading.
	cases = append(cases, is(notify(o),
		unix.FS_IOC_SETFLAGS, fsIoc32SetFlags, fsIocFsSetXattr,
		fsIocSetVersion, fsIoc32SetVersion, ext4IocSetVersion, ext432SetVersion,
		unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ENABLE_VERITY, fatSetAttributes)...)
	// Who gets the keys of the caller's terminal, and who is stopped for reading
	// them.
	cases = append(cases, is(notify(o), unix.TIOCSPGRP)...)
	if o.Signals {
		cases = append(cases, is(no, fioSetOwn, siocSPGrp, fioAsync)...)
	}
	return choose(low(1), 0, allow(), cases...)
}

// fcntl(int fd, unsigned int cmd, …): the owner of a descriptor gets a signal
// of the caller's choice (F_SETSIG) when something happens on it, checked by
// uid alone. A terminal takes the group in its foreground for the owner as soon
// as O_ASYNC is set (tty_fasync), without F_SETOWN. FIOASYNC is the same.
//
// A lease makes whoever opens the file wait until its holder agrees: fcntl(2).
func fcntlRule(o Options) *node {
	no := errno(unix.EPERM)
	cases := is(no, fSetLease)
	if o.Signals {
		flags := choose(low(2), 0, allow(), hasAny(no, unix.O_ASYNC))
		cases = append(cases, is(no, unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG)...)
		cases = append(cases, is(flags, unix.F_SETFL)...)
	}
	return choose(low(1), 0, allow(), cases...)
}

const fSetLease = 1024 // F_SETLEASE, linux/fcntl.h

// setpgid(pid, pgid): 0 is a group of the process's own.
func setpgidRule(o Options) *node {
	return choose(low(1), 0, notify(o), is(allow(), 0)...)
}

// sockType masks SOCK_NONBLOCK and SOCK_CLOEXEC off, as the kernel does
// (SOCK_TYPE_MASK, linux/net.h).
const sockType = 0xf

// socket(int family, int type, int protocol).
func socketRule(o Options) *node {
	no := refuse(o, unix.EACCES)
	families := append(is(allow(), unix.AF_UNIX),
		// Names of interfaces and addresses (getifaddrs). The other netlink
		// protocols are services of the kernel with a long history.
		is(choose(low(2), 0, no, is(allow(), unix.NETLINK_ROUTE)...), unix.AF_NETLINK)...)
	if o.Network != NetNone {
		families = append(families, is(inet(o, unix.IPPROTO_ICMP), unix.AF_INET)...)
		families = append(families, is(inet(o, unix.IPPROTO_ICMPV6), unix.AF_INET6)...)
	}
	return choose(low(0), 0, no, families...)
}

// inet is the decision about type and protocol of an internet socket; icmp is
// the protocol of its unprivileged ping. What isn't needed isn't there: SCTP,
// DCCP, UDP-Lite and L2TP load modules on demand, raw and packet sockets
// (SOCK_PACKET is a type of AF_INET) see others' traffic.
func inet(o Options, icmp uint32) *node {
	no := refuse(o, unix.EACCES)
	stream := is(allow(), 0, unix.IPPROTO_TCP)
	dgram := is(allow(), 0, unix.IPPROTO_UDP)
	if o.Network == NetFull {
		stream = append(stream, is(allow(), unix.IPPROTO_MPTCP)...)
		dgram = append(dgram, is(allow(), icmp)...)
	} else {
		// Multipath TCP would find ways around the loopback. Go tries it first
		// for every listener and takes plain TCP then: as on a kernel without it,
		// and nothing to record.
		stream = append(stream, is(errno(unix.EPROTONOSUPPORT), unix.IPPROTO_MPTCP)...)
	}
	cases := append(is(choose(low(2), 0, no, stream...), unix.SOCK_STREAM),
		is(choose(low(2), 0, no, dgram...), unix.SOCK_DGRAM)...)
	return choose(low(1), sockType, no, cases...)
}

func socketpairRule(o Options) *node {
	return choose(low(0), 0, refuse(o, unix.EACCES), is(allow(), unix.AF_UNIX)...)
}

// sendto(fd, buf, len, flags, addr, addrlen).
func sendtoRule(o Options) *node { return isNull(4, allow(), notify(o)) }

// prctl(int option, …). ssh-agent, gpg-agent and sudo ask not to be looked
// into, which would keep the supervisor from reading their arguments too and
// make every call that it answers for fail. They are told that it was done: the
// processes that it would keep out are those of the same sandbox, as Landlock
// keeps these from tracing anything else.
func prctlRule(o Options) *node {
	if !o.Listener {
		return allow()
	}
	return choose(low(0), 0, allow(), is(choose(low(1), 0, allow(), is(errno(0), 0)...), unix.PR_SET_DUMPABLE)...)
}

// setsockopt(fd, int level, int optname, …). Where only the loopback is allowed,
// an address that was judged is no use when the packets take another way:
// another device (SO_BINDTODEVICE, IP_UNICAST_IF, IPV6_PKTINFO), a source
// route (IP_OPTIONS, IPV6_RTHDR, a flow label that holds one), another route's
// mark; and joining a multicast group tells the network its number. So the
// options that say nothing about the way are named, and all others, those of
// coming kernels too, are refused.
//
// A socket's family isn't visible here: the list holds for Unix and netlink
// sockets too.
func setsockoptRule(o Options) *node {
	if o.Network != NetLoopback {
		return allow()
	}
	no := errno(unix.EPERM)
	options := func(ks []uint32) *node { return choose(low(2), 0, no, is(allow(), ks...)...) }
	// What TCP's options tune lies between the two ends that were judged, but for
	// the one that puts another protocol (SMC) in its place.
	tcp := choose(low(2), 0, allow(), is(no, unix.TCP_ULP)...)
	cases := append(is(allow(), unix.SOL_NETLINK), is(tcp, unix.SOL_TCP)...)
	cases = append(cases, is(options(socketOptions), unix.SOL_SOCKET)...)
	cases = append(cases, is(options(udpOptions), unix.SOL_UDP)...)
	cases = append(cases, is(options(ipOptions), unix.SOL_IP)...)
	cases = append(cases, is(options(ipv6Options), unix.SOL_IPV6)...)
	return choose(low(1), 0, no, cases...)
}

// The options that don't change where a socket's packets go or come in: of
// asm-generic/socket.h, linux/udp.h, linux/in.h and linux/in6.h. Those that can
// only be read (SO_TYPE), or need a privilege that no command has
// (IP_TRANSPARENT), or a raw socket (IPV6_HOPOPTS) are not among them.
var (
	socketOptions = []uint32{
		unix.SO_DEBUG, unix.SO_REUSEADDR, unix.SO_REUSEPORT, unix.SO_BROADCAST, unix.SO_KEEPALIVE, unix.SO_LINGER,
		unix.SO_OOBINLINE, unix.SO_NO_CHECK, unix.SO_PRIORITY, unix.SO_BSDCOMPAT,
		unix.SO_SNDBUF, unix.SO_RCVBUF, unix.SO_SNDBUFFORCE, unix.SO_RCVBUFFORCE, unix.SO_BUF_LOCK, unix.SO_RESERVE_MEM,
		unix.SO_RCVLOWAT, unix.SO_SNDLOWAT,
		unix.SO_RCVTIMEO, unix.SO_SNDTIMEO, unix.SO_RCVTIMEO_NEW, unix.SO_SNDTIMEO_NEW,
		unix.SO_PASSCRED, unix.SO_PASSSEC, unix.SO_PASSPIDFD, unix.SO_PASSRIGHTS,
		unix.SO_TIMESTAMP, unix.SO_TIMESTAMPNS, unix.SO_TIMESTAMPING,
		unix.SO_TIMESTAMP_NEW, unix.SO_TIMESTAMPNS_NEW, unix.SO_TIMESTAMPING_NEW,
		unix.SO_RXQ_OVFL, unix.SO_PEEK_OFF, unix.SO_SELECT_ERR_QUEUE, unix.SO_INCOMING_CPU, unix.SO_CNX_ADVICE,
		unix.SO_BUSY_POLL, unix.SO_PREFER_BUSY_POLL, unix.SO_BUSY_POLL_BUDGET,
		unix.SO_MAX_PACING_RATE, unix.SO_TXTIME, unix.SO_TXREHASH, unix.SO_ZEROCOPY, unix.SO_RCVPRIORITY,
		// Programs of the old kind, which only read what comes in.
		unix.SO_ATTACH_FILTER, unix.SO_DETACH_FILTER, unix.SO_LOCK_FILTER,
		unix.SO_ATTACH_REUSEPORT_CBPF, unix.SO_DETACH_REUSEPORT_BPF,
	}
	udpOptions = []uint32{unix.UDP_CORK, unix.UDP_NO_CHECK6_TX, unix.UDP_NO_CHECK6_RX, unix.UDP_SEGMENT, unix.UDP_GRO}
	// IP_RECVOPTS, IP_RETOPTS and IP_PKTINFO ask for what came with a packet.
	ipOptions = []uint32{
		unix.IP_TOS, unix.IP_TTL, unix.IP_MINTTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_RECVERR_RFC4884,
		unix.IP_RECVTTL, unix.IP_RECVTOS, unix.IP_RECVOPTS, unix.IP_RETOPTS, unix.IP_PKTINFO, unix.IP_RECVORIGDSTADDR,
		unix.IP_PASSSEC, unix.IP_CHECKSUM, unix.IP_RECVFRAGSIZE,
		unix.IP_MULTICAST_TTL, unix.IP_MULTICAST_LOOP, unix.IP_MULTICAST_ALL,
		unix.IP_BIND_ADDRESS_NO_PORT, unix.IP_LOCAL_PORT_RANGE,
	}
	ipv6Options = []uint32{
		unix.IPV6_V6ONLY, unix.IPV6_UNICAST_HOPS, unix.IPV6_MULTICAST_HOPS, unix.IPV6_MULTICAST_LOOP, unix.IPV6_MULTICAST_ALL,
		unix.IPV6_MTU_DISCOVER, unix.IPV6_MTU, unix.IPV6_RECVERR, unix.IPV6_RECVERR_RFC4884, unix.IPV6_DONTFRAG,
		unix.IPV6_RECVPKTINFO, unix.IPV6_2292PKTINFO, unix.IPV6_RECVHOPLIMIT, unix.IPV6_2292HOPLIMIT,
		unix.IPV6_RECVHOPOPTS, unix.IPV6_RECVDSTOPTS, unix.IPV6_RECVRTHDR, unix.IPV6_RECVPATHMTU,
		unix.IPV6_TCLASS, unix.IPV6_RECVTCLASS, unix.IPV6_AUTOFLOWLABEL, unix.IPV6_MINHOPCOUNT,
		unix.IPV6_ORIGDSTADDR, unix.IPV6_RECVFRAGSIZE,
	}
)

func listenRule(o Options) *node {
	if o.Network == NetLoopback {
		return notify(o)
	}
	return allow()
}

func truncateRule(o Options) *node {
	if o.Truncate {
		return notify(o)
	}
	return allow()
}

// writing has the flags of an open that changes a file or makes one. O_TMPFILE
// and O_TRUNC need one of them (open(2)).
const writing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT

// open(path, int flags, mode) and openat(dirfd, path, int flags, mode).
// openat2 has its flags in memory and isn't looked at: it gets none of the
// names beyond what Landlock grants, which nothing that needs them minds.
func openRule(o Options) *node   { return openFlags(o, 1) }
func openatRule(o Options) *node { return openFlags(o, 2) }

func openFlags(o Options, arg uint32) *node {
	if !o.Names {
		return allow()
	}
	return choose(low(arg), 0, allow(), hasAny(notify(o), writing))
}

// namesRule is the calls that make, remove and rename, whose arguments are all
// in memory.
func namesRule(o Options) *node {
	if !o.Names {
		return allow()
	}
	return notify(o)
}

// setpriority(int which, int who, int value).
func setpriorityRule(o Options) *node {
	return choose(low(0), 0, errno(unix.EPERM), is(ownOr(1, notify(o)), unix.PRIO_PROCESS)...)
}

// ioprio_set(int which, int who, int ioprio); linux/ioprio.h.
func ioprioRule(o Options) *node {
	const ioprioWhoProcess = 1
	return choose(low(0), 0, errno(unix.EPERM), is(ownOr(1, notify(o)), ioprioWhoProcess)...)
}

// ownOr allows the call when the pid in that argument is 0, the caller.
func ownOr(arg uint32, other *node) *node {
	return choose(low(arg), 0, other, is(allow(), 0)...)
}

// sched_setaffinity, sched_setattr, sched_setparam, sched_setscheduler(pid, …).
func schedRule(o Options) *node { return ownOr(0, notify(o)) }

// prlimit64(pid_t pid, unsigned int resource, const *new, *old): a look at
// limits changes nothing.
func prlimitRule(o Options) *node {
	set := choose(low(1), 0, ownOr(0, notify(o)), is(errno(unix.EPERM), unix.RLIMIT_RTTIME)...)
	return isNull(2, allow(), set)
}

// setrlimit(unsigned int resource, const *new).
func setrlimitRule(Options) *node {
	return choose(low(0), 0, allow(), is(errno(unix.EPERM), unix.RLIMIT_RTTIME)...)
}

func signalRule(o Options) *node {
	if o.Signals {
		return notify(o)
	}
	return allow()
}

// tgkill(tgid, tid, int sig). SIGURG does nothing to a program that doesn't
// catch it, and Go programs send it to their own threads all the time. dshx
// itself is one: its filtered thread may send it while the world is stopped,
// and would wait for a supervisor that can't run.
func tgkillRule(o Options) *node {
	if !o.Signals {
		return allow()
	}
	return choose(low(2), 0, notify(o), is(allow(), uint32(unix.SIGURG))...)
}
