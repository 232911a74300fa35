package sandboxpolicy

// Promises are the names of what this policy guarantees, in the contract's
// order.
func (p *Policy) Promises() []Promise {
	var out []Promise
	limit := func(i int, name Promise) {
		if p.limits.get(i) != 0 {
			out = append(out, name)
		}
	}
	if p.mode != modeFull {
		out = append(out, PromiseWrite, PromiseSecrets)
		if len(p.protected) > 0 {
			out = append(out, PromiseProtectedPaths)
		}
		out = append(out, PromiseMetadata, PromiseUnixSockets, PromiseUnixDatagram, PromiseAbstractSockets)
		if p.network != NetworkFull {
			out = append(out, PromiseNetwork, PromiseOwnLoopback)
		}
		out = append(out, PromiseSignals, PromiseProcesses, PromiseScheduling, PromiseDevices, PromiseShm, PromiseKernelSurface)
	}
	limit(limMemory, PromiseMemory)
	limit(limPids, PromisePids)
	limit(limCPUTime, PromiseCPUTime)
	limit(limFileSize, PromiseFileSize)
	limit(limTmpSize, PromiseTmpSize)
	return append(out, PromiseLifetime)
}

// Rules is every rule with its origin, for `policy show`.
func (p *Policy) Rules() []RuleLine { return nil }
