package delayq

import "time"

// After shows the wait of a retry to the tests.
func (r Retry) After(attempt int) time.Duration { return r.after(attempt) }
