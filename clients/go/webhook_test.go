package delayq_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	delayq "github.com/delayq/delayq/clients/go"
)

const secret, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2Vjb25kLXNlY3JldC1vZi0yNC1ieXRlcw=="

func signed(body string, at time.Time, secrets ...string) http.Header {
	header := http.Header{}
	stamp := fmt.Sprint(at.Unix())
	for _, one := range secrets {
		key, _ := base64.StdEncoding.DecodeString(one[len("whsec_"):])
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("msg_1." + stamp + "." + body))
		header.Set("webhook-signature", header.Get("webhook-signature")+" v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	for name, value := range map[string]string{
		"webhook-id": "msg_1", "webhook-timestamp": stamp, "delayq-task-type": "order.cancel", "delayq-task-id": "order-42",
		"delayq-attempt": "2", "delayq-fence": "77", "delayq-due-at": "1767225602000", "delayq-namespace": "default",
	} {
		header.Set(name, value)
	}
	return header
}

func TestSignaturesOfWebHooks(t *testing.T) {
	hook, err := delayq.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	both, err := delayq.NewWebhook(other, secret)
	if err != nil {
		t.Fatal(err)
	}
	body, now := `{"order":42}`, time.Now()
	for name, one := range map[string]struct {
		hook   *delayq.Webhook
		header http.Header
		body   string
		isGood bool
	}{
		"good":                  {hook, signed(body, now, secret), body, true},
		"one of two signatures": {hook, signed(body, now, other, secret), body, true},
		"one of two secrets":    {both, signed(body, now, secret), body, true},
		"another secret":        {hook, signed(body, now, other), body, false},
		"another body":          {hook, signed(body, now, secret), `{"order":43}`, false},
		"too old":               {hook, signed(body, now.Add(-301*time.Second), secret), body, false},
		"from the future":       {hook, signed(body, now.Add(302*time.Second), secret), body, false},
		"without":               {hook, http.Header{}, body, false},
	} {
		got, err := one.hook.Verify(one.header, []byte(one.body))
		if one.isGood != (err == nil) || !one.isGood && !errors.Is(err, delayq.ErrInvalidSignature) {
			t.Errorf("%s: %v", name, err)
		}
		var order Order
		if one.isGood && (got.Type != "order.cancel" || got.ID != "order-42" || got.Attempt != 2 || got.Fence != 77 ||
			got.WebhookID != "msg_1" || got.DueAt.UnixMilli() != 1767225602000 || got.Decode(&order) != nil || order.Number != 42) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for _, wrong := range [][]string{nil, {""}, {"whsec_"}, {"whsec_!"}} {
		if _, err := delayq.NewWebhook(wrong...); !errors.Is(err, delayq.ErrInvalidInput) {
			t.Error(wrong, err)
		}
	}
}

func TestTheMiddlewareLetsOnlySignedRequestsPass(t *testing.T) {
	hook, _ := delayq.NewWebhook(secret)
	handler := hook.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", delayq.HookFrom(r.Context()).ID, body)
	}))
	for _, one := range []struct {
		header http.Header
		status int
		says   string
	}{
		{signed("hello", time.Now(), secret), 200, "order-42 hello"},
		{signed("hullo", time.Now(), secret), 401, "delayq: invalid signature: no signature fits the secret\n"},
	} {
		r := httptest.NewRequest("POST", "/hooks", bytes.NewReader([]byte("hello")))
		r.Header = one.header
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != one.status || w.Body.String() != one.says {
			t.Error(w.Code, w.Body)
		}
	}
}
