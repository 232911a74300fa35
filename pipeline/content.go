package pipeline

import (
	"encoding/base64"
	"strings"
)

// Content is one block of what a model reads: text, or an image.
type Content struct {
	typ  string // "text" or "image"
	text string // the text, or the image's bytes
	mime string
}

// Text is a block of text. Bytes that are not UTF-8 become U+FFFD: what must
// keep them belongs in the value, encoded.
func Text(s string) Content {
	return Content{typ: "text", text: strings.ToValidUTF8(s, "\uFFFD")}
}

// Image is an image's bytes, with their media type.
func Image(data []byte, mime string) Content {
	return Content{typ: "image", text: string(data), mime: mime}
}

// Type is "text" or "image"; "" for the zero value.
func (c Content) Type() string { return c.typ }

// Text is the text of a text block, "" for others.
func (c Content) Text() string {
	if c.typ == "text" {
		return c.text
	}
	return ""
}

// Data are the bytes of an image; nil for others.
func (c Content) Data() []byte {
	if c.typ == "image" {
		return []byte(c.text)
	}
	return nil
}

// MIMEType is an image's media type.
func (c Content) MIMEType() string { return c.mime }

// MarshalJSON gives {"type":"text","text"} or {"type":"image","data","mimeType"},
// the data in base64.
func (c Content) MarshalJSON() ([]byte, error) {
	var v any = struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", c.text}
	if c.typ == "image" {
		v = struct {
			Type string `json:"type"`
			Data string `json:"data"`
			MIME string `json:"mimeType"`
		}{"image", base64.StdEncoding.EncodeToString([]byte(c.text)), c.mime}
	}
	j, err := MarshalValue(v)
	return []byte(j.text), err
}
