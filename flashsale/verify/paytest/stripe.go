package paytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Stripe is a fake of Stripe's API of payment intents and refunds. It keeps Idempotency-Keys as
// Stripe does, and signs its events. It is safe for concurrent use.
type Stripe struct {
	Key     string   // the secret key that it accepts
	Secrets []string // that sign events

	// Send sends a signed event. If the status is not 2xx, it is sent again.
	Send func(signature string, body []byte) (status int)

	mu      sync.Mutex
	faults  Faults
	intents map[string]map[string]any
	refunds []map[string]any
	saved   map[string]savedResponse // by Idempotency-Key
	calls   map[string]int
	events  int
	sending sync.WaitGroup
}

type savedResponse struct {
	form   string
	status int
	body   map[string]any
}

// Set changes the faults.
func (s *Stripe) Set(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

// ServeHTTP implements http.Handler.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.intents == nil {
		s.intents, s.saved, s.calls = map[string]map[string]any{}, map[string]savedResponse{}, map[string]int{}
	}
	status, body := s.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func fault(status int, kind, code, message string) (int, map[string]any) {
	return status, map[string]any{"error": map[string]any{"type": kind, "code": code, "message": message}}
}

func (s *Stripe) answer(r *http.Request) (int, map[string]any) {
	if s.faults.Down {
		return http.StatusServiceUnavailable, nil
	}
	if r.Header.Get("Authorization") != "Bearer "+s.Key {
		return fault(http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided")
	}
	if err := r.ParseForm(); err != nil {
		return fault(http.StatusBadRequest, "invalid_request_error", "", err.Error())
	}
	key, form := r.Header.Get("Idempotency-Key"), r.PostForm.Encode()
	if old, ok := s.saved[key]; ok && key != "" {
		if old.form != form {
			return fault(http.StatusBadRequest, "idempotency_error", "", "Keys for idempotent requests can only be used with the same parameters")
		}
		return old.status, old.body
	}
	status, body := s.do(r.Method, strings.TrimPrefix(r.URL.Path, "/v1/"), r.Form)
	if s.faults.After && r.Method == http.MethodPost && status == http.StatusOK {
		status, body = fault(http.StatusInternalServerError, "api_error", "", "an error after the work")
	}
	if key != "" {
		s.saved[key] = savedResponse{form, status, body}
	}
	return status, body
}

func (s *Stripe) do(method, path string, form url.Values) (int, map[string]any) {
	parts := strings.Split(path, "/")
	switch {
	case method == http.MethodPost && path == "payment_intents":
		s.calls["create"]++
		amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
		if err != nil || amount < 1 || len(form.Get("currency")) != 3 {
			return fault(http.StatusBadRequest, "invalid_request_error", "parameter_invalid", "amount or currency")
		}
		id := fmt.Sprintf("pi_%d", len(s.intents)+1)
		s.intents[id] = map[string]any{"id": id, "object": "payment_intent", "client_secret": id + "_secret_x", "status": "requires_payment_method", "amount": amount,
			"amount_received": int64(0), "currency": form.Get("currency"), "metadata": metadata(form), "last_payment_error": nil}
		return http.StatusOK, s.intents[id]
	case method == http.MethodPost && path == "refunds":
		s.calls["refund"]++
		in := s.intents[form.Get("payment_intent")]
		amount, err := strconv.ParseInt(form.Get("amount"), 10, 64)
		switch {
		case in == nil:
			return fault(http.StatusNotFound, "invalid_request_error", "resource_missing", "No such payment_intent")
		case err != nil || amount < 1 || in["status"] != "succeeded" || s.faults.Refuse:
			return fault(http.StatusBadRequest, "invalid_request_error", "payment_intent_unexpected_state", "cannot be refunded")
		case s.refunded(in["id"].(string))+amount > in["amount_received"].(int64):
			return fault(http.StatusBadRequest, "invalid_request_error", "charge_already_refunded", "has already been refunded")
		}
		made := map[string]any{"id": fmt.Sprintf("re_%d", len(s.refunds)+1), "object": "refund", "payment_intent": in["id"], "status": "succeeded", "amount": amount,
			"currency": in["currency"], "metadata": metadata(form)}
		s.refunds = append(s.refunds, made)
		s.emit("refund.created", made)
		return http.StatusOK, made
	case method == http.MethodGet && path == "refunds":
		list := []any{}
		for _, f := range s.refunds {
			if f["payment_intent"] == form.Get("payment_intent") {
				list = append(list, f)
			}
		}
		return http.StatusOK, map[string]any{"object": "list", "data": list}
	case parts[0] == "payment_intents" && len(parts) >= 2:
		in := s.intents[parts[1]]
		switch {
		case in == nil:
			return fault(http.StatusNotFound, "invalid_request_error", "resource_missing", "No such payment_intent")
		case method == http.MethodGet && len(parts) == 2:
			s.calls["query"]++
			return http.StatusOK, in
		case method == http.MethodPost && len(parts) == 3 && parts[2] == "cancel":
			s.calls["close"]++
			if in["status"] == "succeeded" || in["status"] == "canceled" {
				status, body := fault(http.StatusBadRequest, "invalid_request_error", "payment_intent_unexpected_state", "cannot be canceled")
				body["error"].(map[string]any)["payment_intent"] = in
				return status, body
			}
			in["status"] = "canceled"
			s.emit("payment_intent.canceled", in)
			return http.StatusOK, in
		}
	}
	return fault(http.StatusNotFound, "invalid_request_error", "", "Unrecognized request URL")
}

// metadata returns the members metadata[…] of a form.
func metadata(form url.Values) map[string]string {
	all := map[string]string{}
	for name, values := range form {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			all[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	return all
}

func (s *Stripe) refunded(id string) (sum int64) {
	for _, f := range s.refunds {
		if f["payment_intent"] == id {
			sum += f["amount"].(int64)
		}
	}
	return sum
}

// Ref returns the payment intent of a receipt that was created last.
func (s *Stripe) Ref(receipt string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.intents); n > 0; n-- {
		id := fmt.Sprintf("pi_%d", n)
		if s.intents[id]["metadata"].(map[string]string)["receipt"] == receipt {
			return id
		}
	}
	return ""
}

// Pay confirms a payment intent, as its buyer does in the browser.
func (s *Stripe) Pay(ref string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.intents[ref]
	if in == nil || in["status"] == "succeeded" || in["status"] == "canceled" && !s.faults.LatePay {
		return fmt.Errorf("paytest: intent %q cannot be confirmed", ref)
	}
	if s.faults.Reorder {
		defer s.emit("payment_intent.processing", map[string]any{"id": ref, "status": "processing", "currency": in["currency"], "metadata": in["metadata"]})
	}
	in["status"], in["amount_received"] = "succeeded", in["amount"].(int64)+s.faults.WrongAmount
	s.emit("payment_intent.succeeded", in)
	return nil
}

// RefundInDashboard refunds a part of a payment, as its merchant does at the provider.
func (s *Stripe) RefundInDashboard(ref string, amount int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.intents[ref]
	if in == nil || in["status"] != "succeeded" || s.refunded(ref)+amount > in["amount_received"].(int64) {
		return fmt.Errorf("paytest: %d of intent %q cannot be refunded", amount, ref)
	}
	made := map[string]any{"id": fmt.Sprintf("re_%d", len(s.refunds)+1), "object": "refund", "payment_intent": ref, "status": "succeeded", "amount": amount,
		"currency": in["currency"], "metadata": map[string]string{}}
	s.refunds = append(s.refunds, made)
	s.emit("refund.created", made)
	s.emit("refund.updated", made)
	return nil
}

// emit sends an event with the faults of now. Requires mu.
func (s *Stripe) emit(kind string, object map[string]any) {
	f := s.faults
	if f.Lose || s.Send == nil {
		return
	}
	s.events++
	body, err := json.Marshal(map[string]any{"id": fmt.Sprintf("evt_%d", s.events), "object": "event", "type": kind, "created": time.Now().Unix(), "livemode": false,
		"data": map[string]any{"object": object}})
	if err != nil {
		panic(err) // the values are ours
	}
	for i := range f.Duplicate + 1 {
		s.sending.Go(func() {
			<-time.After(f.Delay + time.Duration(i)*10*time.Millisecond)
			for range 100 {
				if status := s.Send(Signature(time.Now(), body, s.Secrets...), body); status >= 200 && status < 300 {
					return
				}
				<-time.After(100 * time.Millisecond)
			}
		})
	}
}

// Signature returns the header Stripe-Signature.
func Signature(at time.Time, body []byte, secrets ...string) string {
	header := fmt.Sprintf("t=%d", at.Unix())
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.", at.Unix())
		mac.Write(body)
		header += ",v1=" + hex.EncodeToString(mac.Sum(nil)) + ",v0=00"
	}
	return header
}

// Wait waits until all events are sent.
func (s *Stripe) Wait() { s.sending.Wait() }

// Calls returns how often a call did its work: create, query, close or refund.
func (s *Stripe) Calls(call string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// Balance returns what was paid for an intent, and what of it was refunded.
func (s *Stripe) Balance(ref string) (paid, refunded int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.intents[ref]
	if in == nil {
		return 0, 0
	}
	return in["amount_received"].(int64), s.refunded(ref)
}
