// Package deploy_test checks the files of deploy and docs/examples against the types of the
// programs that read them. It is a module of its own, because these have many dependencies.
package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	envoygateway "github.com/envoyproxy/gateway/api/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	chartloader "helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"sigs.k8s.io/yaml"
)

const chart = "helm/weir"

var kubernetes = chartutil.KubeVersion{Version: "v1.34.0", Major: "1", Minor: "34"}

// values reads a file of values.
func values(t *testing.T, file string) map[string]any {
	t.Helper()
	v, err := chartutil.ReadValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// render returns the objects of the chart by kind. An unknown field, or a value of another type, is
// an error.
func render(t *testing.T, values map[string]any) map[string]runtime.Object {
	t.Helper()
	c, err := chartloader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	capabilities := *chartutil.DefaultCapabilities
	capabilities.KubeVersion = kubernetes
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "weir", Namespace: "edge"}, &capabilities)
	if err != nil {
		t.Fatal(err) // also if values.schema.json rejects a value
	}
	files, err := engine.Render(c, all)
	if err != nil {
		t.Fatal(err)
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme, monitoring.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	objects := map[string]runtime.Object{}
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for _, document := range releaseutil.SplitManifests(text) {
			object, kind, err := decoder.Decode([]byte(document), nil, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, document)
			}
			objects[kind.Kind] = object
		}
	}
	return objects
}

// TestChart renders the Helm chart with its defaults, and with every part, and checks the types of
// all objects and what they say about each other.
func TestChart(t *testing.T) {
	small := []string{"ConfigMap", "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount"}
	for file, want := range map[string][]string{
		chart + "/values.yaml":   small,
		"helm/testdata/all.yaml": append([]string{"HorizontalPodAutoscaler", "ServiceMonitor"}, small...),
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			v := values(t, file)
			linted := lint.AllWithKubeVersion(chart, v, "edge", &kubernetes)
			for _, m := range linted.Messages {
				if m.Severity > support.InfoSev {
					t.Errorf("lint: %v", m)
				}
			}
			objects := render(t, v)
			slices.Sort(want)
			if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			checkObjects(t, objects)
		})
	}
}

// checkObjects checks that the names of ports, labels and volumes exist, which no schema says.
func checkObjects(t *testing.T, objects map[string]runtime.Object) {
	template := objects["Deployment"].(*apps.Deployment).Spec.Template
	container := template.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range container.Ports {
		ports[p.Name] = true
	}
	service := objects["Service"].(*core.Service)
	for _, p := range service.Spec.Ports {
		if !ports[p.TargetPort.StrVal] {
			t.Errorf("Service: port %s: no container port %s", p.Name, p.TargetPort.StrVal)
		}
	}
	for _, rule := range objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec.Ingress {
		for _, p := range rule.Ports {
			if !ports[p.Port.StrVal] {
				t.Errorf("NetworkPolicy: no container port %s", p.Port.StrVal)
			}
		}
	}
	for name, probe := range map[string]*core.Probe{"startup": container.StartupProbe, "readiness": container.ReadinessProbe, "liveness": container.LivenessProbe} {
		if probe == nil || !ports[probe.HTTPGet.Port.StrVal] {
			t.Errorf("no %s probe of a container port", name)
		}
	}
	pods := labels.Set(template.Labels)
	for name, selector := range map[string]map[string]string{
		"Deployment":          objects["Deployment"].(*apps.Deployment).Spec.Selector.MatchLabels,
		"Service":             service.Spec.Selector,
		"NetworkPolicy":       objects["NetworkPolicy"].(*networking.NetworkPolicy).Spec.PodSelector.MatchLabels,
		"PodDisruptionBudget": objects["PodDisruptionBudget"].(*policy.PodDisruptionBudget).Spec.Selector.MatchLabels,
	} {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(pods) {
			t.Errorf("%s: %v does not select the pods %v", name, selector, pods)
		}
	}
	volumes := map[string]bool{}
	for _, v := range template.Spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range container.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %s", m.Name)
		}
	}
	if s := container.SecurityContext; !*template.Spec.SecurityContext.RunAsNonRoot || !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation {
		t.Error("want no root user, a read-only root and no privileges")
	}
	if m, ok := objects["ServiceMonitor"].(*monitoring.ServiceMonitor); ok {
		if !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels)) || !ports[m.Spec.Endpoints[0].Port] {
			t.Errorf("ServiceMonitor: want the Service and one of its ports, got %v", m.Spec)
		}
	}
	if a, ok := objects["HorizontalPodAutoscaler"].(*autoscaling.HorizontalPodAutoscaler); ok && a.Spec.ScaleTargetRef.Name != objects["Deployment"].(*apps.Deployment).Name {
		t.Errorf("HorizontalPodAutoscaler: got target %v", a.Spec.ScaleTargetRef)
	}
}

// TestChartRejects checks that the chart rejects values that it does not have.
func TestChartRejects(t *testing.T) {
	c, err := chartloader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []map[string]any{{"replica": 3}, {"replicas": "three"}} {
		if _, err := chartutil.ToRenderValues(c, v, chartutil.ReleaseOptions{Name: "weir"}, nil); err == nil {
			t.Errorf("accepts %v", v)
		}
	}
}

// TestCompose loads the compose file as docker compose does: its schema, and the services, volumes
// and secrets that it refers to.
func TestCompose(t *testing.T) {
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: "compose", ConfigFiles: types.ToConfigFiles([]string{"compose/compose.yaml"}), Environment: map[string]string{},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"grafana", "prometheus", "upstream", "valkey", "weir-1", "weir-2"}
	if got := project.ServiceNames(); project.Name != "weir" || !slices.Equal(got, want) {
		t.Errorf("project %s with %v, want weir with %v", project.Name, got, want)
	}
}

// TestEnvoyGateway checks the examples of Envoy Gateway.
func TestEnvoyGateway(t *testing.T) {
	const dir = "../docs/examples/envoy-gateway"
	text, err := os.ReadFile(dir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Config struct{ EnvoyGateway envoygateway.EnvoyGatewaySpec }
	}
	if err := yaml.UnmarshalStrict(text, &v); err != nil {
		t.Fatal(err)
	}
	image := *v.Config.EnvoyGateway.Provider.Kubernetes.RateLimitDeployment.Container.Image
	if !strings.HasPrefix(image, "ghcr.io/floodweir/weir:") {
		t.Errorf("image %s, want Weir", image)
	}
	if text, err = os.ReadFile(dir + "/policy.yaml"); err != nil {
		t.Fatal(err)
	}
	var p envoygateway.BackendTrafficPolicy
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	if p.Spec.RateLimit.Global == nil || len(p.Spec.RateLimit.Global.Rules) != 1 {
		t.Errorf("rate limit %v, want one global rule", p.Spec.RateLimit)
	}
}
