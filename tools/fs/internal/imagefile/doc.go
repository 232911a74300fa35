// Package imagefile says whether a file is an image that can be shown: PNG, JPEG,
// GIF or WebP, and decodes.
//
// A file is decoded in full before it counts as an image, within a limit of
// memory and work that is known from its header, before anything is allocated.
// Of an animation only the first picture is decoded; animated WebP is not known.
//
//	if imagefile.Type(head) != "" && size <= imagefile.MaxBytes {
//		info, err := imagefile.Decode(data)
//	}
//
// What decodes here can still harm another decoder.
//
// Only the file tools may import it.
package imagefile
