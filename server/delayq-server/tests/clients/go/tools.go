//go:build tools

// Programs that tests run as they are, and what programs of the guide import.
package tools

import (
	_ "github.com/fullstorydev/grpcurl/cmd/grpcurl"
	_ "github.com/jackc/pgx/v5"
)
