package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const kubernetesDir = "kubernetes"

// cluster is what the manifests would make.
type cluster struct {
	pods     map[string]corev1.PodTemplateSpec // by component
	services map[string]corev1.Service
	settings map[string]string          // of the ConfigMap
	secrets  map[string]string          // keys of the Secret
	cron     map[string]batchv1.CronJob // by component
}

// strict decodes a document as an API server does: names in their case, none
// twice, none that the type does not have.
func strict[T any](t *testing.T, document string) (out T) {
	t.Helper()
	text, err := yaml.YAMLToJSONStrict([]byte(document))
	require.NoError(t, err)
	wrong, err := json.UnmarshalStrict(text, &out)
	require.NoError(t, err)
	require.Empty(t, wrong)
	return out
}

// manifests reads every document in the directory.
func manifests(t *testing.T) *cluster {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(kubernetesDir, "*.yaml"))
	require.NoError(t, err)
	c := &cluster{pods: map[string]corev1.PodTemplateSpec{}, services: map[string]corev1.Service{}, cron: map[string]batchv1.CronJob{}}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		for _, document := range strings.Split(readFile(t, file), "\n---\n") {
			c.add(t, document)
		}
	}
	return c
}

func (c *cluster) add(t *testing.T, document string) {
	t.Helper()
	var head struct{ Kind, APIVersion string }
	require.NoError(t, yaml.Unmarshal([]byte(document), &head))
	switch head.APIVersion + " " + head.Kind {
	case "v1 ConfigMap":
		c.settings = strict[corev1.ConfigMap](t, document).Data
	case "v1 Secret":
		c.secrets = strict[corev1.Secret](t, document).StringData
	case "v1 Service":
		s := strict[corev1.Service](t, document)
		c.services[s.Name] = s
	case "policy/v1 PodDisruptionBudget":
		b := strict[policyv1.PodDisruptionBudget](t, document)
		require.NotNil(t, b.Spec.MinAvailable)
	case "apps/v1 Deployment":
		d := strict[appsv1.Deployment](t, document)
		c.pod(t, d.Spec.Template, d.Spec.Selector.MatchLabels)
	case "apps/v1 StatefulSet":
		s := strict[appsv1.StatefulSet](t, document)
		for _, claim := range s.Spec.VolumeClaimTemplates { // a volume of every pod, by this name
			s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, corev1.Volume{Name: claim.Name})
		}
		c.pod(t, s.Spec.Template, s.Spec.Selector.MatchLabels)
	case "batch/v1 Job":
		c.pod(t, strict[batchv1.Job](t, document).Spec.Template, nil)
	case "batch/v1 CronJob":
		job := strict[batchv1.CronJob](t, document)
		c.cron[job.Labels["app.kubernetes.io/component"]] = job
		c.pod(t, job.Spec.JobTemplate.Spec.Template, nil)
	default:
		t.Errorf("no type is known for %+v", head)
	}
}

func (c *cluster) pod(t *testing.T, p corev1.PodTemplateSpec, selector map[string]string) {
	t.Helper()
	for key, value := range selector {
		require.Equal(t, value, p.Labels[key], "the selector misses its own pods")
	}
	c.pods[p.Labels["app.kubernetes.io/component"]] = p
}

func TestKubernetesRunsTheProgram(t *testing.T) {
	c := manifests(t)
	config := filepath.Join(t.TempDir(), "kvwhatif.yaml")
	require.NoError(t, os.WriteFile(config, []byte(c.settings["kvwhatif.yaml"]), 0o600))
	for stage := range needs {
		if stage == "simulate" {
			continue
		}
		t.Run(stage, func(t *testing.T) {
			require.Contains(t, c.pods, stage, "nothing runs it")
			container := c.pods[stage].Spec.Containers[0]
			p := process{args: argsOf(container), config: config}
			require.Equal(t, stage, p.args[0])
			p.env, p.secret = c.environment(t, container)
			found := p.check(t)
			c.checkPorts(t, container, found)
			if stage == "replay" {
				require.Contains(t, c.services, host(t, found["replay.otlp"].Value))
			}
			checkMounts(t, c.pods[stage].Spec, found)
		})
	}
}

// argsOf is what kvwhatif is given, by the container's own shell too.
func argsOf(c corev1.Container) []string {
	if len(c.Command) == 0 {
		return c.Args
	}
	line := regexp.MustCompile(`/usr/local/bin/kvwhatif ([^;]+);`).FindStringSubmatch(c.Command[len(c.Command)-1])
	return strings.Fields(line[1])
}

// environment fills in what the Secret would give.
func (c *cluster) environment(t *testing.T, container corev1.Container) (env map[string]string, secret []string) {
	t.Helper()
	env = map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
		if v.ValueFrom == nil {
			continue
		}
		ref := v.ValueFrom.SecretKeyRef
		require.Equal(t, "kvwhatif", ref.Name)
		require.Contains(t, c.secrets, ref.Key)
		env[v.Name] = "secret-of-" + ref.Key
		if ref.Key == "clickhouse-dsn" {
			env[v.Name] = "http://u:secret-of-clickhouse@h:8123/kvwhatif"
		}
	}
	return env, []string{"secret-of-clickhouse", "secret-of-replay-salt"}
}

// checkPorts holds the ports that are named against what is listened on, and
// Services and probes against the names.
func (c *cluster) checkPorts(t *testing.T, container corev1.Container, found map[string]setting) {
	t.Helper()
	listens := map[string]string{"health": "listen", "otlp-grpc": "collect.grpc", "otlp-http": "collect.http", "coefficients": "serve.address"}
	names := map[string]bool{}
	for _, p := range container.Ports {
		require.Equal(t, port(t, found[listens[p.Name]].Value), fmt.Sprint(p.ContainerPort), p.Name)
		names[p.Name] = true
	}
	if service, ok := c.services["kvwhatif-"+container.Name]; ok {
		require.Equal(t, container.Name, service.Spec.Selector["app.kubernetes.io/component"])
		for _, p := range service.Spec.Ports {
			require.True(t, names[p.TargetPort.StrVal], "%s has no port %s", container.Name, p.TargetPort.StrVal)
		}
	}
	if slices.Contains(needs[container.Name], "listen") {
		require.Equal(t, "/healthz", container.LivenessProbe.HTTPGet.Path)
		require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
		for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
			require.True(t, names[probe.HTTPGet.Port.StrVal])
		}
	}
}

// checkMounts finds each mount's volume, and the key's directory among the mounts.
func checkMounts(t *testing.T, pod corev1.PodSpec, found map[string]setting) {
	t.Helper()
	volumes, at := map[string]bool{}, map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		for _, m := range container.VolumeMounts {
			require.True(t, volumes[m.Name], "no volume %s", m.Name)
			at[m.MountPath] = true
		}
	}
	require.True(t, at["/etc/kvwhatif"])
	if slices.Contains(needs[pod.Containers[0].Name], "calibrate.key") {
		require.True(t, at[filepath.Dir(found["calibrate.key"].Value)])
		require.Contains(t, pod.InitContainers[0].Command, found["calibrate.key"].Value)
	}
}

func TestKubernetesIsCareful(t *testing.T) {
	for name, p := range manifests(t).pods {
		spec := p.Spec
		require.True(t, *spec.SecurityContext.RunAsNonRoot, name)
		require.False(t, *spec.EnableServiceLinks, "%s: variables of Services would be read as settings", name)
		require.False(t, *spec.AutomountServiceAccountToken, name)
		for _, c := range append(spec.InitContainers, spec.Containers...) {
			require.Equal(t, "kvwhatif", c.Image, "the kustomization names the image")
			require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem, name)
			require.False(t, *c.SecurityContext.AllowPrivilegeEscalation, name)
			require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop, name)
			require.NotEmpty(t, c.Resources.Requests.Cpu().String(), name)
			require.Positive(t, c.Resources.Limits.Memory().Value(), name)
		}
	}
}

func TestKustomization(t *testing.T) {
	file := strict[struct {
		APIVersion string   `json:"apiVersion"`
		Kind       string   `json:"kind"`
		Resources  []string `json:"resources"`
		Images     []struct {
			Name    string `json:"name"`
			NewName string `json:"newName"`
			NewTag  string `json:"newTag"`
		} `json:"images"`
	}](t, readFile(t, kubernetesDir, "kustomization.yaml"))
	require.Equal(t, "kvwhatif", file.Images[0].Name)
	for _, resource := range file.Resources {
		require.FileExists(t, filepath.Join(kubernetesDir, resource))
		require.NotContains(t, resource, "secret", "an example would overwrite the real one")
	}
}

// Exit code 3 is the usual outcome of calibrate, and the only one that is hidden.
func TestCalibrateJobExitCodes(t *testing.T) {
	spec := manifests(t).cron["calibrate"].Spec
	require.Equal(t, batchv1.ForbidConcurrent, spec.ConcurrencyPolicy)
	job := spec.JobTemplate.Spec
	require.Equal(t, corev1.RestartPolicyNever, job.Template.Spec.RestartPolicy)
	container := job.Template.Spec.Containers[0]
	require.Equal(t, container.Name, *job.PodFailurePolicy.Rules[0].OnExitCodes.ContainerName)
	for code, want := range map[int]int{0: 0, 1: 1, 2: 2, 3: 0} {
		stub := filepath.Join(t.TempDir(), "kvwhatif")
		require.NoError(t, os.WriteFile(stub, fmt.Appendf(nil, "#!/bin/sh\nexit %d\n", code), 0o755))
		line := strings.ReplaceAll(container.Command[2], "/usr/local/bin/kvwhatif", stub)
		cmd := exec.Command(container.Command[0], container.Command[1], line)
		_ = cmd.Run()
		require.Equal(t, want, cmd.ProcessState.ExitCode(), "of %d", code)
	}
}
