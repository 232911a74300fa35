// Package pipeline is the one way by which a tool call becomes a result. What
// a model, a script or an editor asks for is a capability it knows of, not a
// permission that it has: between the two lie the stages below, in this order,
// for every call and every front door.
//
//	Input ─► materialise ─► visible? ─► validate ─► admission ─► PreExecute ─► approval ─► Guards ─► wrappers ─► body
//	      ─► validate output, render ─► PostExecute ─► normalise ─► FinalizeContent ─► freeze ─► observers
//
// A tool is defined once, with typed arguments and a typed value (Define), and
// registered in a Scope. Policy is attached to scopes: listeners that allow,
// deny, cancel or ask; whether anybody may be asked; guards, which can only deny;
// wrappers around the body; listeners for what came out of it; and observers of
// calls, of questions and their answers, and of results.
//
//	root := pipeline.New(pipeline.Options{})
//	echo, err := pipeline.Define(pipeline.Spec[EchoArgs, EchoValue]{Name: "echo", …})
//	undo, err := root.Register(echo)
//	result := root.Call(ctx, pipeline.Request{ID: "1", Name: "echo", Args: []byte(`{"text":"hi"}`)})
//
// Exactly one Result comes of every call, whatever fails or panics on the way,
// and it is frozen: the caller, observers and a log see the same one. A value
// is for programs, content for models, a card for interfaces; none is made by
// parsing another.
//
// What it does not protect against: a body that ignores its context is waited
// for; stages run in this process and are trusted not to corrupt its memory.
// The confinement of what a body does is not in here: the package knows no
// tool, no sandbox and no protocol, and imports nothing of this module's.
package pipeline
