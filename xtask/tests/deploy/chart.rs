//! The chart as helm renders it, with the values of each example.

use std::collections::BTreeSet;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{place, read, yaml};

const CHART: &str = "docs/deploy/helm/delayq";
const EXAMPLES: [&str; 3] = ["trial", "production", "postgres"];

/// Runs helm for a cluster of this version; `None` where helm is not installed.
fn helm(arguments: &[&str]) -> Option<Output> {
    let run = Command::new("helm")
        .args(arguments)
        .args(["--kube-version", "1.30.0"])
        .current_dir(place(""))
        .output();
    match run {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("LEFT OUT: helm is not here, which renders the chart");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn said(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    String::from_utf8_lossy(&output.stdout).into_owned() + &errors
}

/// What a release of this example consists of.
fn rendered(example: &str, more: &[&str]) -> Option<Vec<Value>> {
    let values = format!("docs/deploy/helm/examples/{example}.yaml");
    let render = [
        "template",
        "try",
        CHART,
        "--namespace",
        "shop",
        "--values",
        &values,
    ];
    let output = helm(&[&render[..], more].concat())?;
    assert!(output.status.success(), "{example}: {}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let documents = text
        .split("\n---\n")
        .map(|one| one.trim_start_matches("---\n"));
    let documents = documents.filter(|one| one.lines().any(|line| !line.starts_with('#')));
    Some(documents.map(yaml).collect())
}

fn of_kind<'a>(all: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    all.iter().filter(move |one| one["kind"] == kind)
}

/// What a pod may do is the least that it needs, and its probes and volumes exist.
fn judge_pod(pod: &Value) {
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    let volumes = pod["volumes"].as_array().cloned().unwrap_or_default();
    for container in pod["containers"].as_array().unwrap() {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"][0], "ALL");
        assert!(container["resources"]["limits"]["memory"].is_string());
        assert!(container["resources"]["limits"]["cpu"].is_null());
        assert!(container["readinessProbe"].is_object());
        for mount in container["volumeMounts"].as_array().unwrap() {
            let is_there = volumes.iter().any(|one| one["name"] == mount["name"]);
            assert!(is_there || mount["name"] == "data", "{mount}");
        }
    }
}

#[test]
fn helm_takes_the_chart_with_the_values_of_every_example() {
    for example in EXAMPLES {
        let values = format!("docs/deploy/helm/examples/{example}.yaml");
        let lint = ["lint", "--strict", CHART, "--values", &values];
        let Some(output) = helm(&lint) else { return };
        assert!(output.status.success(), "{}", said(&output));
        let Some(all) = rendered(example, &[]) else {
            return;
        };
        let mut names = BTreeSet::new();
        for one in &all {
            let about = &one["metadata"];
            let name = format!("{} {}", one["kind"], about["name"]);
            assert!(names.insert(name), "{about} is there twice");
            assert_eq!(about["namespace"], "shop", "{about}");
            assert_eq!(about["labels"]["app.kubernetes.io/part-of"], "delayq");
        }
        let workloads = of_kind(&all, "Deployment").chain(of_kind(&all, "StatefulSet"));
        for workload in workloads {
            let spec = &workload["spec"];
            let selected = spec["selector"]["matchLabels"].as_object().unwrap();
            let labels = &spec["template"]["metadata"]["labels"];
            assert!(selected.iter().all(|(name, value)| labels[name] == *value));
            let service = of_kind(&all, "Service").find(|service| {
                let selector = service["spec"]["selector"].as_object().unwrap();
                selector == selected
            });
            let container = &spec["template"]["spec"]["containers"][0];
            let ports = service.unwrap()["spec"]["ports"].as_array().unwrap();
            for port in ports {
                let mut open = container["ports"].as_array().unwrap().iter();
                assert!(open.any(|one| one["name"] == port["targetPort"]), "{port}");
            }
            judge_pod(&spec["template"]["spec"]);
        }
    }
}

/// The secret that a variable of the server is from.
fn secret<'a>(all: &'a [Value], variable: &str) -> &'a Value {
    let deployment = of_kind(all, "Deployment").next().unwrap();
    let env = &deployment["spec"]["template"]["spec"]["containers"][0]["env"];
    let mut env = env.as_array().unwrap().iter();
    let found = env.find(|one| one["name"] == variable).unwrap();
    &found["valueFrom"]["secretKeyRef"]
}

#[test]
fn every_example_has_what_it_is_for() {
    let Some(trial) = rendered("trial", &[]) else {
        return;
    };
    assert_eq!(secret(&trial, "DELAYQ_STORE")["name"], "try-delayq-redis");
    let names: BTreeSet<_> = of_kind(&trial, "Secret")
        .map(|one| &one["metadata"]["name"])
        .map(ToString::to_string)
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(of_kind(&trial, "PodDisruptionBudget").count(), 0);

    let Some(production) = rendered("production", &[]) else {
        return;
    };
    assert_eq!(secret(&production, "DELAYQ_STORE")["name"], "delayq-store");
    assert_eq!(of_kind(&production, "Secret").count(), 0);
    for kind in [
        "PodDisruptionBudget",
        "NetworkPolicy",
        "ServiceMonitor",
        "ServiceAccount",
    ] {
        assert_eq!(of_kind(&production, kind).count(), 1, "{kind}");
    }
    let rule = of_kind(&production, "PrometheusRule").next().unwrap();
    assert_eq!(rule["spec"], yaml(&read("docs/monitoring/alerts.yml")));
    let maps: Vec<_> = of_kind(&production, "ConfigMap").collect();
    let data = |name: &str| {
        maps.iter()
            .find_map(|map| map["data"][name].as_str())
            .unwrap()
    };
    let dashboard: Value = serde_json::from_str(data("delayq.json")).unwrap();
    let ours: Value =
        serde_json::from_str(&read("docs/monitoring/grafana-dashboard.json")).unwrap();
    assert_eq!(dashboard, ours);
    assert!(data("server.toml").contains("[namespaces.shop]"));
    let deployment = of_kind(&production, "Deployment").next().unwrap();
    let server = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(server["readinessProbe"]["httpGet"]["scheme"], "HTTPS");

    let Some(postgres) = rendered("postgres", &[]) else {
        return;
    };
    assert_eq!(secret(&postgres, "DELAYQ_HISTORY")["key"], "history");
    let policy = of_kind(&postgres, "NetworkPolicy").next().unwrap();
    assert_eq!(policy["spec"]["egress"].as_array().unwrap().len(), 2);
}

#[test]
fn a_url_becomes_a_secret_and_a_changed_configuration_new_pods() {
    let url = ["--set", "redis.enabled=false,store.url=redis://a/0"];
    let Some(one) = rendered("trial", &url) else {
        return;
    };
    let stored = of_kind(&one, "Secret").find(|secret| secret["data"]["url"].is_string());
    // base64 of redis://a/0.
    assert_eq!(stored.unwrap()["data"]["url"], "cmVkaXM6Ly9hLzA=");
    let set = [
        "--set",
        "redis.enabled=false,store.url=redis://a/0,config=retention = \"1h\"",
    ];
    let Some(two) = rendered("trial", &set) else {
        return;
    };
    let annotations = |all: &[Value]| {
        let deployment = of_kind(all, "Deployment").next().unwrap();
        deployment["spec"]["template"]["metadata"]["annotations"].clone()
    };
    assert_ne!(annotations(&one), annotations(&two));
}

/// A monitor asks for no key that a secret of TLS may lack, and the one of the example is let in.
#[test]
fn prometheus_reaches_the_pods_of_the_production_example() {
    let Some(production) = rendered("production", &[]) else {
        return;
    };
    let monitor = of_kind(&production, "ServiceMonitor").next().unwrap();
    let endpoint = &monitor["spec"]["endpoints"][0];
    let tls = serde_json::json!({"serverName": "delayq.example"});
    assert_eq!(
        (&endpoint["scheme"], &endpoint["tlsConfig"]),
        (&"https".into(), &tls)
    );
    let policy = of_kind(&production, "NetworkPolicy").next().unwrap();
    let from = policy["spec"]["ingress"][0]["from"].as_array().unwrap();
    let of = |one: &Value| {
        let labels = &one["namespaceSelector"]["matchLabels"];
        labels["kubernetes.io/metadata.name"] == "monitoring"
    };
    assert!(from.iter().any(of), "{from:?}");
    let ca = "metrics.serviceMonitor.tls.caSecret=own,metrics.serviceMonitor.tls.serverName=";
    let Some(own) = rendered("production", &["--set", ca]) else {
        return;
    };
    let monitor = of_kind(&own, "ServiceMonitor").next().unwrap();
    let tls = serde_json::json!({
        "ca": {"secret": {"name": "own", "key": "ca.crt"}}, "serverName": "try-delayq.shop.svc",
    });
    assert_eq!(monitor["spec"]["endpoints"][0]["tlsConfig"], tls);
}

/// The id is that of the token in the secret, which may be a secret of the user.
#[test]
fn the_notes_tell_where_the_id_of_the_first_token_is() {
    let notes = read(&format!("{CHART}/templates/NOTES.txt"));
    assert!(notes.contains("token revoke ID\n") && !notes.contains("token revoke first"));
}

/// The store of a trial goes on while a new version of the chart replaces the servers.
#[test]
fn the_pod_of_redis_has_nothing_that_differs_by_version() {
    let Some(trial) = rendered("trial", &["--set", "enabled=true"]) else {
        return;
    };
    let redis = of_kind(&trial, "StatefulSet").next().unwrap();
    let labels = redis["spec"]["template"]["metadata"]["labels"]
        .as_object()
        .unwrap();
    for name in ["helm.sh/chart", "app.kubernetes.io/version"] {
        assert!(!labels.contains_key(name), "{labels:?}");
    }
}

#[test]
fn values_that_cannot_work_are_refused_with_what_to_do() {
    for (set, reason) in [
        ("replicas=2", "give one store"),
        ("store.url=redis://a/0,redis.enabled=true", "give one store"),
        ("store.url=sqlite:a", "pods do not share a file"),
        (
            "store.url=redis://a/0,config=a,configSecret.existingSecret=b",
            "not both",
        ),
        (
            "store.url=redis://a/0,metrics.serviceMonitor.enabled=true",
            "needs a token",
        ),
        ("store.url=redis://a/0,replica=3", "replica"),
        (
            "store.url=redis://a/0,terminationGracePeriodSeconds=10",
            "terminationGracePeriodSeconds",
        ),
        ("store.url=redis://a/0,stop.readyGraceMs=5001", "are 51 s"),
        (
            "store.url=redis://a/0,config=tls = { client_ca = \"a\" }",
            "no probe of Kubernetes",
        ),
        (
            "store.url=redis://a/0,extraEnv[0].name=DELAYQ_TLS__CLIENT_CA",
            "no probe of Kubernetes",
        ),
        ("store.url=redis://a/0,log.format=xml", "format"),
    ] {
        let Some(output) = helm(&["template", "try", CHART, "--set", set]) else {
            return;
        };
        let said = said(&output);
        assert!(
            !output.status.success() && said.contains(reason),
            "{set}: {said}"
        );
    }
}
