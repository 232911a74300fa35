package supervise

type boundSockets struct{}

func (b *boundSockets) init() {}
