package approval

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dshx/dshx/pipeline"
)

func TestBroker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(b *Broker, id string, cancel func())
		want   pipeline.Answer
	}{
		{"allowed", func(b *Broker, id string, _ func()) { b.Answer(id, "allowed-once") }, pipeline.AllowedOnce},
		{"rejected", func(b *Broker, id string, _ func()) { b.Answer(id, "rejected") }, pipeline.Rejected},
		{"always is no outcome", func(b *Broker, id string, _ func()) { b.Answer(id, "allowed-always") }, pipeline.Unavailable},
		{"another question's", func(b *Broker, _ string, _ func()) {
			if b.Answer("ap-99", "allowed-once") {
				t.Error("an unknown question was answered")
			}
		}, pipeline.Unavailable},
		{"rejected, then allowed", func(b *Broker, id string, _ func()) {
			b.Answer(id, "rejected")
			if b.Answer(id, "allowed-once") {
				t.Error("a second answer was taken")
			}
		}, pipeline.Rejected},
		{"nobody", func(*Broker, string, func()) {}, pipeline.Unavailable},
		{"cancelled", func(_ *Broker, _ string, cancel func()) { cancel() }, pipeline.Dismissed},
		{"closed", func(b *Broker, _ string, _ func()) { b.Close() }, pipeline.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				asked := make(chan Asked, 1)
				b := NewBroker(func(a Asked) { asked <- a }, time.Hour)
				got := make(chan pipeline.Answer, 1)
				began := time.Now()
				go func() { got <- b.Approve(ctx, pipeline.Question{Reason: "r"}) }()
				a := <-asked
				if a.ID != "ap-1" || a.Reason != "r" {
					t.Errorf("asked %+v", a)
				}
				tt.answer(b, a.ID, cancel)
				if g := <-got; g != tt.want {
					t.Errorf("got %v, want %v", g, tt.want)
				}
				if took := time.Since(began); took > time.Hour {
					t.Errorf("took %v", took)
				}
				if b.Answer(a.ID, "allowed-once") {
					t.Error("a second answer was taken")
				}
			})
		})
	}
	b := NewBroker(func(Asked) { t.Error("asked after the end") }, time.Millisecond)
	b.Close()
	if a := b.Approve(t.Context(), pipeline.Question{}); a != pipeline.Unavailable {
		t.Errorf("after the end: %v", a)
	}
	if (Never{}).Approve(context.Background(), pipeline.Question{}) != pipeline.Rejected {
		t.Error("Never doesn't reject")
	}
}
