package telemetry

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/floodweir/weir"
)

// settings holds the values of the environment.
type settings struct {
	traces, metrics string // URLs; "": not exported
	sampler         sdktrace.Sampler
	propagator      propagation.TextMapPropagator
}

// invalidVariable returns an error about a variable, with its value but without a
// password.
func invalidVariable(name, value, format string, args ...any) error {
	return fmt.Errorf("telemetry: %s %.80q: %w: %w", name, redacted(value), weir.ErrInvalid, fmt.Errorf(format, args...))
}

// read reads the environment. Without an endpoint, other variables are ignored.
func read(getenv func(string) string) (*settings, error) {
	env := func(name string) string { return strings.TrimSpace(getenv(name)) }
	s := &settings{}
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return s, nil
	}
	var err error
	if s.traces, err = endpoint(env, "TRACES", "/v1/traces"); err != nil {
		return nil, err
	}
	if s.metrics, err = endpoint(env, "METRICS", "/v1/metrics"); err != nil {
		return nil, err
	}
	if s.traces == "" {
		return s, nil
	}
	if s.sampler, err = sampler(env); err != nil {
		return nil, err
	}
	s.propagator, err = propagator(env)
	return s, err
}

// endpoint returns the URL to which a signal is exported; "" if it is not exported.
func endpoint(env func(string) string, signal, path string) (string, error) {
	name := "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT"
	value := env(name)
	if value != "" {
		path = "" // the URL of a signal is complete
	} else {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		value = env(name)
	}
	if value == "" {
		return "", nil
	}
	switch exporter := env("OTEL_" + signal + "_EXPORTER"); exporter {
	case "", "otlp":
	case "none":
		return "", nil
	default:
		return "", invalidVariable("OTEL_"+signal+"_EXPORTER", exporter, "want otlp or none")
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		protocol := env(name)
		if protocol == "" {
			continue
		}
		if protocol != "http/protobuf" {
			return "", invalidVariable(name, protocol, "want http/protobuf (port 4318 of a collector)")
		}
		break // the variable of the signal takes precedence
	}
	u, err := url.Parse(value)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", invalidVariable(name, value, "want http://HOST:PORT or https://HOST:PORT such as http://127.0.0.1:4318")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", invalidVariable(name, value, "want a URL without a user, a query and a fragment; put secrets into OTEL_EXPORTER_OTLP_HEADERS")
	}
	return u.JoinPath(path).String(), nil
}

// redacted returns a URL without its user, password and query.
func redacted(value string) string {
	if at := strings.LastIndexByte(value, '@'); at >= 0 {
		value = "xxxxx" + value[at:]
	}
	value, _, _ = strings.Cut(value, "?")
	return value
}

// sampler selects the requests that make spans; by default the parent span decides.
func sampler(env func(string) string) (sdktrace.Sampler, error) {
	const name = "OTEL_TRACES_SAMPLER"
	value := strings.ToLower(env(name))
	if value == "" {
		value = "parentbased_always_on"
	}
	root, byParent := strings.CutPrefix(value, "parentbased_")
	var s sdktrace.Sampler
	switch root {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		ratio := 1.0
		if arg := env(name + "_ARG"); arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				return nil, invalidVariable(name+"_ARG", arg, "want a number from 0 to 1 such as 0.01")
			}
		}
		s = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, invalidVariable(name, value, "want always_on, always_off or traceidratio, or one of them after parentbased_")
	}
	if byParent {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}

// propagator returns the formats in which a trace crosses processes.
func propagator(env func(string) string) (propagation.TextMapPropagator, error) {
	const name = "OTEL_PROPAGATORS"
	value := env(name)
	if value == "" {
		value = "tracecontext,baggage"
	}
	var all []propagation.TextMapPropagator
	for one := range strings.SplitSeq(value, ",") {
		switch strings.TrimSpace(one) {
		case "tracecontext":
			all = append(all, propagation.TraceContext{})
		case "baggage":
			all = append(all, propagation.Baggage{})
		case "none":
		default:
			return nil, invalidVariable(name, value, "want tracecontext, baggage or both with a comma between, or none")
		}
	}
	return propagation.NewCompositeTextMapPropagator(all...), nil
}
