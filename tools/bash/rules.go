package bash

import (
	"context"
	"encoding/json"

	"github.com/dshx/dshx/commandrules"
	"github.com/dshx/dshx/pipeline"
	"github.com/dshx/dshx/sandboxpolicy"
)

// RulesName is what to register RuleListener and RuleGuard under: it is `by` in
// the details of a refusal.
const RulesName = "command rules"

// RuleListener applies the policy's command rules to the calls of this tool: ask
// asks, and deny refuses before anybody is asked about the rest of the call.
// What it decides about other tools is left to the listeners after it.
func RuleListener(p *sandboxpolicy.Policy) pipeline.PreExecute {
	return func(_ context.Context, c *pipeline.Call, next func() pipeline.Decision) pipeline.Decision {
		v := judge(p, c)
		info := struct {
			Command string             `json:"command"`
			Rule    sandboxpolicy.Rule `json:"rule"`
		}{valid(v.Command), sandboxpolicy.Rule{Text: valid(v.Rule.Text), Origin: valid(v.Rule.Origin)}}
		switch v.Decision {
		case commandrules.Allow:
			return next()
		case commandrules.Ask:
			return pipeline.Ask{Reason: valid(v.Reason)}.Also(next())
		}
		return pipeline.Deny{Reason: valid(v.Reason), Info: info}
	}
}

// RuleGuard refuses what a deny rule names, whatever was approved.
func RuleGuard(p *sandboxpolicy.Policy) pipeline.Guard {
	return func(c *pipeline.Call) (reason string, deny bool) {
		v := judge(p, c)
		return valid(v.Reason), v.Decision == commandrules.Deny
	}
}

// judge is what the rules say of a call. Its arguments have been validated.
func judge(p *sandboxpolicy.Policy, c *pipeline.Call) commandrules.Verdict {
	if c.Name() != name || !p.HasCommandRules() {
		return commandrules.Verdict{Decision: commandrules.Allow}
	}
	var a struct {
		Command string            `json:"command"`
		Env     map[string]string `json:"env"`
	}
	if err := json.Unmarshal([]byte(c.Args().String()), &a); err != nil {
		return commandrules.Verdict{Reason: "the command can't be read: " + err.Error()}
	}
	return commandrules.Script(p, a.Command, a.Env)
}
