package sandboxpolicy

func (b *builder) addEnv() error { b.p.environ = b.req.Environ; return nil }
