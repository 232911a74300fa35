package supervise

var helperSocketOps = map[string]func(a []string) (string, error){}
