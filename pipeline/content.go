package pipeline

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
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

// Len is how many bytes the text or the image has.
func (c Content) Len() int { return len(c.text) }

// MIMEType is an image's media type.
func (c Content) MIMEType() string { return c.mime }

// MaxContent is how much text a model gets to read of one result, in bytes. A
// tool that may have more cuts it where it can say how to get the rest; what it
// leaves longer is cut at the end.
const MaxContent = 48 << 10

// bounded is a copy with at most MaxContent bytes of text.
func bounded(content []Content) []Content {
	room := MaxContent
	var out []Content
	for _, c := range content {
		if c.typ == "text" {
			if c.text = cutText(c.text, room); c.text == "" && len(out) > 0 {
				continue
			}
			room -= len(c.text)
		}
		if c.typ != "" {
			out = append(out, c)
		}
	}
	return out
}

// cutText keeps both ends of a text, in at most most bytes, and says between
// them how much is missing; nothing where there is no room for that.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	const note = "[… %d bytes left out …]"
	keep := (most - len(note) - 20) / 2
	if keep < 0 {
		return ""
	}
	head, tail := strings.ToValidUTF8(s[:keep], ""), strings.ToValidUTF8(s[len(s)-keep:], "")
	return head + fmt.Sprintf(note, len(s)-len(head)-len(tail)) + tail
}

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

// UnmarshalJSON takes what MarshalJSON gives. A block of another type has no
// text and no data.
func (c *Content) UnmarshalJSON(data []byte) error {
	var v struct {
		Type string `json:"type"`
		Text string `json:"text"`
		Data string `json:"data"`
		MIME string `json:"mimeType"`
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	switch v.Type {
	case "text":
		*c = Text(v.Text)
	case "image":
		raw, err := base64.StdEncoding.DecodeString(v.Data)
		if err != nil {
			return err
		}
		*c = Image(raw, v.MIME)
	default:
		*c = Content{typ: v.Type}
	}
	return nil
}
