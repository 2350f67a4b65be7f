// Package hook is what the test double may do with an App, and nobody else.
package hook

var (
	// Virtual tells an App that time passes only in the hands of a test.
	Virtual func(app any)
	// Handles reports whether a type has a handler.
	Handles func(app any, taskType string) bool
	// Attempt runs the handler of a task, as a claim answers it, until its end is reported.
	Attempt func(app any, claimed []byte) error
)
