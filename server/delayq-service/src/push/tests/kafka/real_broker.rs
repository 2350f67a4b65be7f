//! A real broker of Apache Kafka, from Maven Central (55 MB of jars), in KRaft mode without
//! ZooKeeper. Asks for Java and Maven.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Instant;

use super::*;

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>delayq</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>4.1.1</version></dependency>
  </dependencies>
</project>"#;

/// How long Maven and the broker may take, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// A broker, ended by its process id.
struct Broker(Child);

impl Drop for Broker {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn properties(folder: &Path, broker: u16, controller: u16) -> String {
    format!(
        "process.roles=broker,controller\nnode.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller}\n\
         listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{broker}\n\
         controller.listener.names=CONTROLLER\nlog.dirs={}\n\
         offsets.topic.replication.factor=1\nauto.create.topics.enable=true\n",
        folder.join("data").display()
    )
}

fn start(folder: &Path) -> (Broker, u16) {
    std::fs::write(folder.join("pom.xml"), POM).unwrap();
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "dependency:copy-dependencies"]);
    run(maven.arg("-DoutputDirectory=lib").current_dir(folder));
    let free = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [port, controller] = free.map(|one| one.local_addr().unwrap().port());
    let config = folder.join("server.properties");
    std::fs::write(&config, properties(folder, port, controller)).unwrap();
    let java = |main: &str| {
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-cp", "lib/*", main])
            .current_dir(folder);
        java.stdout(File::create(folder.join(main)).unwrap());
        java
    };
    let mut format = java("kafka.tools.StorageTool");
    format.args([
        "format",
        "-t",
        "AAAAAAAAAAAAAAAAAAAAAQ",
        "-c",
        "server.properties",
    ]);
    run(&mut format);
    let broker = java("kafka.Kafka")
        .arg("server.properties")
        .spawn()
        .unwrap();
    let (broker, end) = (Broker(broker), Instant::now() + PATIENCE);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < end, "the broker does not listen");
        std::thread::yield_now();
    }
    (broker, port)
}

#[tokio::test]
async fn a_real_broker_takes_and_acknowledges_records() {
    let folder = tempfile::tempdir().unwrap();
    let (_broker, port) = start(folder.path());
    check(&format!("127.0.0.1:{port}")).await;
}
