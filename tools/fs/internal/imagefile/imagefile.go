package imagefile

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/webp"
)

const (
	// MaxBytes is the largest file that Decode looks at.
	MaxBytes = 32 << 20

	maxMemory = 256 << 20 // bytes that decoding one image may need
	// JPEG scans times pixels: a scan of a few bytes can go over all of the picture.
	// Encoders make about ten scans.
	maxScanned = 2 << 30
)

// An Info describes an image.
type Info struct {
	MIME          string // image/png, image/jpeg, image/gif or image/webp
	Width, Height int    // in pixels, as stored: an orientation in EXIF is not applied
}

// ErrFormat says that a file is no image of a known format, or does not decode.
var ErrFormat = errors.New("not an image that can be decoded")

// A TooLargeError says that an image would take more than is allowed to decode
// (FS_TOO_LARGE).
type TooLargeError struct {
	MIME          string
	Bytes         int
	Width, Height int // 0 if the file itself is too large
}

func (e *TooLargeError) Error() string {
	if e.Width == 0 {
		return fmt.Sprintf("%s of %d bytes is too large to decode", e.MIME, e.Bytes)
	}
	return fmt.Sprintf("%s of %d x %d pixels is too large to decode", e.MIME, e.Width, e.Height)
}

// Code returns FS_TOO_LARGE.
func (e *TooLargeError) Code() string { return "FS_TOO_LARGE" }

// Type returns the MIME type of the image that head, at least the first 12 bytes
// of a file, begins like; "" if like none. It may still not be one.
func Type(head []byte) string {
	at := func(i int, magic string) bool {
		return len(head) >= i+len(magic) && string(head[i:i+len(magic)]) == magic
	}
	switch {
	case at(0, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case at(0, "\xff\xd8\xff"):
		return "image/jpeg"
	case at(0, "GIF87a"), at(0, "GIF89a"):
		return "image/gif"
	case at(0, "RIFF") && at(8, "WEBP"):
		return "image/webp"
	}
	return ""
}

// Decode decodes the image that data holds, whatever its file is called.
//
// Errors: ErrFormat (wrapped, with what the decoder said), *TooLargeError.
func Decode(data []byte) (Info, error) {
	info := Info{MIME: Type(data)}
	// No format does without a NUL. "GIF89a is a format" has none, and would be an image
	// of many million pixels.
	if info.MIME == "" || bytes.IndexByte(data, 0) < 0 {
		return Info{}, ErrFormat
	}
	if len(data) > MaxBytes {
		return Info{}, &TooLargeError{MIME: info.MIME, Bytes: len(data)}
	}
	fail := func(err error) (Info, error) {
		return Info{}, fmt.Errorf("%w: %s: %w", ErrFormat, info.MIME, err)
	}
	config, decode, pixel := header(info.MIME, data)
	c, err := config()
	if err != nil {
		return fail(err)
	}
	info.Width, info.Height = c.Width, c.Height
	if c.Width <= 0 || c.Height <= 0 {
		return fail(errors.New("it has no pixels"))
	}
	large := &TooLargeError{MIME: info.MIME, Bytes: len(data), Width: c.Width, Height: c.Height}
	// As quotients: the product of two numbers from a file may overflow.
	perPixel := pixel(c)
	if c.Width > maxMemory/perPixel/c.Height {
		return Info{}, large
	}
	if info.MIME == "image/jpeg" {
		// In the picture's own data, FF is followed by 00 or a restart marker.
		scans := bytes.Count(data, []byte("\xff\xda"))
		if scans > 0 && c.Width > maxScanned/scans/c.Height {
			return Info{}, large
		}
	}
	if _, err := decode(); err != nil {
		return fail(err)
	}
	return info, nil
}

// header returns the decoders of a format, and how many bytes decoding takes for
// each pixel at most.
func header(mime string, data []byte) (config func() (image.Config, error), decode func() (image.Image, error), perPixel func(image.Config) int) {
	r := func() *bytes.Reader { return bytes.NewReader(data) }
	switch mime {
	case "image/png":
		return func() (image.Config, error) { return png.DecodeConfig(r()) },
			func() (image.Image, error) { return png.Decode(r()) }, pngPixel
	case "image/jpeg":
		return func() (image.Config, error) { return jpeg.DecodeConfig(r()) },
			func() (image.Image, error) { return jpeg.Decode(r()) },
			func(image.Config) int { return jpegPixel(data) }
	case "image/gif":
		return func() (image.Config, error) { return gif.DecodeConfig(r()) },
			func() (image.Image, error) { return gif.Decode(r()) },
			func(image.Config) int { return 2 } // de-interlacing copies
	default:
		return func() (image.Config, error) { return webp.DecodeConfig(r()) },
			func() (image.Image, error) { return webp.Decode(r()) },
			func(image.Config) int { return 8 } // lossless: the picture and what it is transformed from
	}
}

// pngPixel doubles a pixel's size, since the passes of an interlaced picture are
// pictures of their own. Grey ones get colours if a later chunk makes one transparent.
func pngPixel(c image.Config) int {
	switch c.ColorModel {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
		return 2 * 8
	case color.GrayModel, color.RGBAModel, color.NRGBAModel:
		return 2 * 4
	}
	return 2 // a palette
}

// jpegPixel looks for the frame header, which says whether the file is progressive:
// then all coefficients are kept, four bytes each, beside the picture.
func jpegPixel(data []byte) int {
	const worst = 4 * (1 + 4)
	for at := 2; at+4 <= len(data); {
		if data[at] != 0xFF {
			return worst
		}
		marker := data[at+1]
		if marker == 0xFF { // a fill byte
			at++
			continue
		}
		if marker == 0xC0 || marker == 0xC1 || marker == 0xC2 {
			if at+10 > len(data) {
				return worst
			}
			components := int(data[at+9])
			if components < 1 || components > 4 {
				return worst
			}
			// CMYK is converted into a picture of its own.
			n := components
			if components == 4 {
				n = 8
			}
			if marker == 0xC2 {
				n += 4 * components
			}
			return n
		}
		at += 2 + int(data[at+2])<<8 + int(data[at+3])
	}
	return worst
}
