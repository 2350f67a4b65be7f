//go:build tools

// Programs that tests run as they are.
package tools

import _ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
