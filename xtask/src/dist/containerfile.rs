//! The instructions of `docs/deploy/Containerfile` that say how the image is run: the image that is
//! built here follows the same ones.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::call::Failure;

/// The last stage of a file, an instruction each.
#[derive(Debug)]
pub(crate) struct Containerfile(Vec<(String, String)>);

impl Containerfile {
    /// Reads its text.
    ///
    /// # Errors
    /// It has no stage.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let joined = text.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let split = lines.filter_map(|line| line.split_once(' '));
        let all = split.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned()));
        let all: Vec<_> = all.collect();
        let stage = all.iter().rposition(|(name, _)| name == "FROM");
        let stage = stage.and_then(|start| all.get(start..));
        let stage = stage.ok_or_else(|| Failure("the Containerfile has no FROM".to_owned()))?;
        Ok(Self(stage.to_vec()))
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let same = self.0.iter().filter(move |(one, _)| one == name);
        same.map(|(_, rest)| rest.as_str())
    }

    fn one(&self, name: &str) -> Result<&str, Failure> {
        let missing = || Failure(format!("the Containerfile has no {name}"));
        self.all(name).next().ok_or_else(missing)
    }

    /// The user and the group, by number.
    ///
    /// # Errors
    /// They are not two equal numbers.
    pub(crate) fn user(&self) -> Result<u64, Failure> {
        let text = self.one("USER")?;
        let number = text.split_once(':').filter(|(user, group)| user == group);
        let number = number.and_then(|(user, _)| user.parse().ok());
        number.ok_or_else(|| Failure(format!("USER {text}: use NUMBER:NUMBER of one account")))
    }

    /// The working folder, which is the volume, without its first `/`.
    ///
    /// # Errors
    /// It has none.
    pub(crate) fn folder(&self) -> Result<&str, Failure> {
        Ok(self.one("WORKDIR")?.trim_start_matches('/'))
    }

    /// The labels.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.all("LABEL").filter_map(|text| text.split_once('='));
        pairs.map(|(name, value)| (name, value.trim_matches('"')))
    }

    /// The `config` of an image that runs as this file says. `labels` are added to those of the
    /// file.
    ///
    /// # Errors
    /// An instruction is missing, or has another form than here.
    pub(crate) fn config(&self, labels: &[(&str, String)]) -> Result<Value, Failure> {
        let set = |names: Vec<String>| -> Map<String, Value> {
            names.into_iter().map(|name| (name, json!({}))).collect()
        };
        let ports = self.all("EXPOSE").map(|port| format!("{port}/tcp"));
        let volumes = self.all("VOLUME").map(str::to_owned);
        let own = self.labels().map(|(name, value)| (name, value.to_owned()));
        let labels = own.chain(labels.iter().cloned());
        let labels: Map<_, _> = labels
            .map(|(name, value)| (name.to_owned(), value.into()))
            .collect();
        let path = "PATH=/usr/local/bin:/usr/bin:/bin";
        let env: Vec<_> = self.all("ENV").chain([path]).collect();
        Ok(json!({
            "User": self.one("USER")?,
            "WorkingDir": self.one("WORKDIR")?,
            "Entrypoint": words(self.one("ENTRYPOINT")?)?,
            "Env": env,
            "ExposedPorts": set(ports.collect()),
            "Volumes": set(volumes.collect()),
            "Labels": labels,
            "StopSignal": self.one("STOPSIGNAL")?,
            "Healthcheck": health(self.one("HEALTHCHECK")?)?,
        }))
    }
}

/// A list of words in JSON.
fn words(text: &str) -> Result<Vec<String>, Failure> {
    serde_json::from_str(text).map_err(|_| Failure(format!("{text} is no list of words in JSON")))
}

/// `--interval=10s --timeout=6s CMD ["program", "word"]`, with times in nanoseconds.
fn health(text: &str) -> Result<Value, Failure> {
    let bad = || Failure(format!("HEALTHCHECK {text}: use --NAME=VALUE and CMD [..]"));
    let (options, command) = text.split_once("CMD ").ok_or_else(bad)?;
    let mut line = vec!["CMD".to_owned()];
    line.extend(words(command)?);
    let mut health = json!({"Test": line});
    for option in options.split_whitespace() {
        let (name, value) = option.split_once('=').ok_or_else(bad)?;
        let (field, value) = match name {
            "--interval" => ("Interval", nanoseconds(value)),
            "--timeout" => ("Timeout", nanoseconds(value)),
            "--start-period" => ("StartPeriod", nanoseconds(value)),
            "--retries" => ("Retries", value.parse().ok()),
            _ => return Err(bad()),
        };
        let value = value.ok_or_else(bad)?;
        if let Some(fields) = health.as_object_mut() {
            fields.insert(field.to_owned(), value.into());
        }
    }
    Ok(health)
}

fn nanoseconds(text: &str) -> Option<u64> {
    let seconds = text.strip_suffix('s')?.parse().ok()?;
    u64::try_from(Duration::from_secs(seconds).as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_stage_becomes_the_configuration_of_an_image() {
        let text = "FROM a AS build\nUSER 1:1\n# words\nFROM b\nUSER 65532:65532\nWORKDIR /d\n\
                    VOLUME /d\nENV A=1\nEXPOSE 7\nSTOPSIGNAL SIGTERM\nENTRYPOINT [\"/p\"]\n\
                    LABEL a.b=\"c d\"\nHEALTHCHECK --interval=2s --retries=3 \\\n CMD [\"/p\", \"x\"]\n";
        let file = Containerfile::read(text).unwrap();
        assert_eq!(file.user().unwrap(), 65_532);
        let config = file.config(&[("v", "1".to_owned())]).unwrap();
        let expected = json!({
            "User": "65532:65532",
            "WorkingDir": "/d",
            "Entrypoint": ["/p"],
            "Env": ["A=1", "PATH=/usr/local/bin:/usr/bin:/bin"],
            "ExposedPorts": {"7/tcp": {}},
            "Volumes": {"/d": {}},
            "Labels": {"a.b": "c d", "v": "1"},
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "/p", "x"],
                "Interval": 2_000_000_000_u64,
                "Retries": 3,
            },
        });
        assert_eq!(config, expected);
        let without = text.replace("ENTRYPOINT", "RUN");
        let config = Containerfile::read(&without).unwrap().config(&[]);
        assert!(config.unwrap_err().0.contains("no ENTRYPOINT"));
    }

    #[test]
    fn the_file_of_this_tree_has_all_of_it() {
        let text = include_str!("../../../docs/deploy/Containerfile");
        let file = Containerfile::read(text).unwrap();
        let config = file.config(&[]).unwrap();
        assert_eq!(config["Healthcheck"]["Test"][2], "health");
        assert_eq!(config["Healthcheck"]["Test"][3], "--live");
        assert_eq!(config["Volumes"]["/var/lib/delayq"], json!({}));
        assert!(file.labels().count() > 2);
    }
}
