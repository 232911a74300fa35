package approval_test

import (
	"context"
	"fmt"

	"github.com/dshx/dshx/approval"
	"github.com/dshx/dshx/pipeline"
)

// console is somebody who reads the question and says yes.
type console struct{}

func (console) Ask(_ context.Context, q approval.Question) (pipeline.Answer, error) {
	fmt.Println(q.ID, q.DisplayReason)
	return pipeline.AllowedOnce, nil
}

func Example() {
	s := approval.New(approval.Ask, 0)
	question := pipeline.Question{DisplayReason: "network full: to fetch"}
	fmt.Println(s.Approve(context.Background(), question)) // nobody is there
	leave := s.Use(console{})
	fmt.Println(s.Approve(context.Background(), question))
	leave()
	s.SetPolicy(approval.Never)
	fmt.Println(s.Approve(context.Background(), question))
	// Output:
	// unavailable
	// ap-2 network full: to fetch
	// allowed-once
	// rejected
}
