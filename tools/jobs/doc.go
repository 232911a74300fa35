// Package jobtools has the tools by which a client follows and ends the jobs
// that its calls left running: job_list, job_output, job_wait, job_kill and
// job_input, on the one jobs.Owner that they are given.
//
//	undo, err := jobtools.Register(scope, jobtools.Options{Jobs: jobsOf})
//
// They know nothing of what a job is: that is package jobs, and the tool that
// started it. All but job_input run in parallel with anything, so that a wait
// holds nobody up. Cancelling a call never ends a job. Jobs of other owners and
// jobs that never were are the same error, JOB_NOT_FOUND.
//
// Front doors and the program import it.
package jobtools
