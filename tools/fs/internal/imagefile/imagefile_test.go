package imagefile

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"
)

// picture is an image of w x h pixels that isn't all one colour.
func picture(w, h int) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, w, h))
	for x := range w {
		for y := range h {
			m.Set(x, y, color.RGBA{byte(x * 7), byte(y * 5), 9, 255})
		}
	}
	return m
}

func encoded(t testing.TB, mime string) []byte {
	t.Helper()
	var b bytes.Buffer
	var err error
	switch m := picture(31, 17); mime {
	case "image/png":
		err = png.Encode(&b, m)
	case "image/jpeg":
		err = jpeg.Encode(&b, m, nil)
	case "image/gif":
		err = gif.Encode(&b, m, nil)
	case "image/webp":
		// 1 x 1 pixels, lossless: the standard library has no encoder.
		var data []byte
		data, err = base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4TBEAAAAvAAAAAAfQ//73v/+BiOh/AAA=")
		b.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

var formats = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func TestDecode_EachFormat(t *testing.T) {
	for _, mime := range formats {
		t.Run(mime, func(t *testing.T) {
			data := encoded(t, mime)
			want := Info{mime, 31, 17}
			if mime == "image/webp" {
				want = Info{mime, 1, 1}
			}
			if got, err := Decode(data); err != nil || got != want {
				t.Errorf("got %+v, %v", got, err)
			}
			if Type(data[:12]) != mime {
				t.Errorf("12 bytes are %q", Type(data[:12]))
			}
			// Its first half has the signature and doesn't decode.
			if _, err := Decode(data[:len(data)/2]); !errors.Is(err, ErrFormat) {
				t.Errorf("half of it: %v", err)
			}
		})
	}
}

func TestDecode_F4_21_WhatIsNoImage(t *testing.T) {
	for _, tc := range []struct{ name, data string }{
		{"nothing", ""},
		{"JSON", `{"a": 1}`},
		{"a signature and noise", "\x89PNG\r\n\x1a\n" + strings.Repeat("\x7f\x00\xee", 50)},
		{"text that begins like a GIF", "GIF89a is a format"},
		{"JPEG's first bytes", "\xff\xd8\xff"},
		{"an empty WebP", "RIFF\x04\x00\x00\x00WEBP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Decode([]byte(tc.data)); !errors.Is(err, ErrFormat) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// claimedPNG is a PNG that says it has w x h pixels, and has none.
func claimedPNG(w, h uint32) []byte {
	b := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	b = binary.BigEndian.AppendUint32(b, w)
	b = binary.BigEndian.AppendUint32(b, h)
	b = append(b, 8, 6, 0, 0, 0)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[12:]))
}

func TestDecode_RefusesBombs(t *testing.T) {
	large := func(data []byte) *TooLargeError {
		_, err := Decode(data)
		var e *TooLargeError
		if errors.As(err, &e) && e.Code() != "FS_TOO_LARGE" {
			t.Errorf("code %s", e.Code())
		}
		return e
	}
	if e := large(claimedPNG(30_000, 30_000)); e == nil || e.Width != 30_000 || e.Height != 30_000 {
		t.Errorf("900 million pixels: %+v", e)
	}
	if e := large(claimedPNG(1<<31-1, 1<<31-1)); e != nil && e.Width == 0 {
		t.Errorf("as many pixels as there can be: %+v", e)
	}
	// Its twin of a usual size is refused for having no pixels, not for its size.
	if _, err := Decode(claimedPNG(300, 300)); !errors.Is(err, ErrFormat) {
		t.Errorf("a small one: %v", err)
	}
	if e := large(append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, MaxBytes)...)); e == nil || e.Width != 0 {
		t.Errorf("a large file: %+v", e)
	}
	// A JPEG whose scans outnumber what is sensible for its size.
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 1200, 1200)), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(b.Bytes()); err != nil {
		t.Errorf("1.4 million pixels: %v", err)
	}
	if e := large(append(b.Bytes(), bytes.Repeat([]byte("\xff\xda"), 2000)...)); e == nil {
		t.Error("2001 scans of 1.4 million pixels are decoded")
	}
}

func TestJPEGPixel(t *testing.T) {
	frame := func(marker, components byte) []byte {
		return append([]byte{0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xFF, marker, 0, 17, 8, 0, 9, 0, 9, components}, make([]byte, 20)...)
	}
	for _, tc := range []struct {
		name string
		data []byte
		want int
	}{
		{"baseline", frame(0xC0, 3), 3}, {"grey", frame(0xC0, 1), 1}, {"CMYK", frame(0xC1, 4), 8},
		{"progressive", frame(0xC2, 3), 15}, {"no frame", []byte("\xff\xd8\xff\xe0\x00\x04"), 20}, {"no marker", []byte("\xff\xd8abcdef"), 20},
		{"too many components", frame(0xC0, 9), 20},
	} {
		if got := jpegPixel(tc.data); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, mime := range formats {
		f.Add(encoded(f, mime))
	}
	f.Add(claimedPNG(70_000, 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		info, err := Decode(data)
		var large *TooLargeError
		switch {
		case err == nil && (info.Width < 1 || info.Height < 1 || info.MIME != Type(data)):
			t.Fatalf("%+v", info)
		case err != nil && !errors.Is(err, ErrFormat) && !errors.As(err, &large):
			t.Fatal(err)
		}
	})
}
