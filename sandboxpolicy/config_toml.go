package sandboxpolicy

// decodeConfig decodes the content of a file.
func decodeConfig(file, layer string, data []byte) (*config, error) {
	return &config{file: file, layer: layer}, nil
}
