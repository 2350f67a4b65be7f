package delayq

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Webhook verifies that requests are signed by a delayq server, as Standard Webhooks specifies.
type Webhook struct{ keys [][]byte }

// Hook is a task that was pushed. Answer with 2xx once the work is done.
type Hook struct {
	// WebhookID is the same in every attempt: store it if a repetition would do harm.
	WebhookID string
	Type, ID  string
	Attempt   int
	Fence     int64
	Namespace string
	DueAt     time.Time
	Header    http.Header // of the request; headers of the task begin with Delayq-Header-
	Message
}

// NewWebhook takes the secrets of the target, such as whsec_..: one, or two during a rotation.
func NewWebhook(secrets ...string) (*Webhook, error) {
	hook := new(Webhook)
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(secret), "whsec_"))
		if err != nil || len(key) == 0 {
			return nil, refuse("a secret of a web hook is whsec_ and base64, as the target shows it once")
		}
		hook.keys = append(hook.keys, key)
	}
	if len(secrets) == 0 {
		return nil, refuse("a web hook needs a secret: that of its target")
	}
	return hook, nil
}

// Verify checks the signature of a request, and that it was sent within five minutes. It fails with
// [ErrInvalidSignature].
func (h *Webhook) Verify(header http.Header, body []byte) (*Hook, error) {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || time.Since(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return nil, fmt.Errorf("%w: the time %q is missing or too far from now", ErrInvalidSignature, timestamp)
	}
	isSigned := false
	for _, key := range h.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		own := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for _, given := range strings.Fields(strings.Join(header.Values("webhook-signature"), " ")) {
			isSigned = hmac.Equal(own, []byte(given)) || isSigned
		}
	}
	if !isSigned {
		return nil, fmt.Errorf("%w: no signature fits the secret", ErrInvalidSignature)
	}
	number := func(name string) int64 {
		value, _ := strconv.ParseInt(header.Get(name), 10, 64)
		return value
	}
	return &Hook{
		WebhookID: id, Type: header.Get("delayq-task-type"), ID: header.Get("delayq-task-id"), Header: header,
		Namespace: header.Get("delayq-namespace"), Attempt: int(number("delayq-attempt")), Fence: number("delayq-fence"),
		DueAt: time.UnixMilli(number("delayq-due-at")), Message: Message{Bytes: body},
	}, nil
}

type hookKey struct{}

// HookFrom returns what [Webhook.Middleware] has verified, and nil outside of it.
func HookFrom(ctx context.Context) *Hook {
	hook, _ := ctx.Value(hookKey{}).(*Hook)
	return hook
}

// Middleware answers 401 to requests that are not signed, and passes the others on to next, which
// gets the task by [HookFrom].
func (h *Webhook) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4*maxBulkBytes))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		hook, err := h.Verify(r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hookKey{}, hook)))
	})
}
