//! A real Eureka server, of Spring Cloud, from Maven Central (60 MB of jars). Asks for Java and
//! Maven.

use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};

use super::*;

const POM: &str = r#"<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <parent>
    <groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId>
    <version>3.5.7</version><relativePath/>
  </parent>
  <groupId>delayq</groupId><artifactId>registry</artifactId><version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.springframework.cloud</groupId><artifactId>spring-cloud-dependencies</artifactId>
    <version>2025.0.0</version><type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.springframework.cloud</groupId>
    <artifactId>spring-cloud-starter-netflix-eureka-server</artifactId>
  </dependency></dependencies>
</project>"#;

const MAIN: &str = r"package registry;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.netflix.eureka.server.EnableEurekaServer;

@SpringBootApplication
@EnableEurekaServer
public class Main {
    public static void main(String[] args) {
        SpringApplication.run(Main.class, args);
    }
}";

/// How long Maven and the registry may take, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(5);

/// A registry, ended by its process id.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn build(folder: &Path) {
    let sources = folder.join("src/main/java/registry");
    std::fs::create_dir_all(&sources).unwrap();
    std::fs::write(folder.join("pom.xml"), POM).unwrap();
    std::fs::write(sources.join("Main.java"), MAIN).unwrap();
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "compile", "dependency:copy-dependencies"]);
    maven.arg("-DoutputDirectory=lib").current_dir(folder);
    let status = maven.status().unwrap();
    assert!(status.success(), "{maven:?}: {status}");
}

async fn start(folder: &Path, port: u16) -> Running {
    let mut java = Command::new("java");
    java.args(["-Xmx256m", "-cp", "target/classes:lib/*", "registry.Main"]);
    java.arg(format!("--server.port={port}"));
    java.args([
        "--eureka.client.register-with-eureka=false",
        "--eureka.client.fetch-registry=false",
        "--eureka.server.enable-self-preservation=false",
        "--eureka.server.eviction-interval-timer-in-ms=500",
        "--eureka.server.response-cache-update-interval-ms=300",
    ]);
    java.current_dir(folder);
    java.stdout(File::create(folder.join("log")).unwrap());
    let running = Running(java.spawn().unwrap());
    let client = EurekaClient::new([format!("http://127.0.0.1:{port}/eureka")]).unwrap();
    let answers = async {
        while client.apps().await.is_err() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, answers).await;
    waited.expect("the registry answers");
    running
}

async fn until(discovery: &Discovery, wanted: &[&str]) {
    let wait = async {
        while types(discovery) != wanted {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, wait).await;
    assert!(ended.is_ok(), "{:?}", types(discovery));
}

#[tokio::test]
async fn a_real_registry_is_followed_through_its_restart() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let registry = start(folder.path(), port).await;
    let url = format!("http://127.0.0.1:{port}/eureka");
    let mut config = ServiceConfig::default();
    config.eureka.urls = vec![url.clone()];
    config.refresh_ms = 200;
    let discovery = Arc::new(Discovery::new(&config));
    let following = tokio::spawn(Arc::clone(&discovery).run());
    let announce = |app: &str, task_type: &str| {
        let instance = EurekaInstance::new(app, "http://10.0.0.7:8080").unwrap();
        let instance = instance.metadata("delayq.types", task_type);
        let instance = instance.heartbeat(Duration::from_secs(1));
        Registration::registered(EurekaClient::new([&url]).unwrap(), instance)
    };
    let (shop, mail) = (
        announce("shop", "order.cancel"),
        announce("mail", "mail.send"),
    );
    until(&discovery, &["mail.send", "order.cancel"]).await;
    mail.deregister().await;
    until(&discovery, &["order.cancel"]).await;
    // A new registry knows nobody: what it answers to a heartbeat has the instance register again.
    drop(registry);
    let _registry = start(folder.path(), port).await;
    until(&discovery, &["order.cancel"]).await;
    // One that says nothing more is gone when its lease ends.
    let client = EurekaClient::new([&url]).unwrap();
    let silent = EurekaInstance::new("stock", "http://10.0.0.8:8080").unwrap();
    let silent = silent.metadata("delayq.types", "stock.release");
    let silent = silent.heartbeat(Duration::from_secs(1));
    client.register(&silent, SystemClock.now()).await.unwrap();
    until(&discovery, &["order.cancel", "stock.release"]).await;
    until(&discovery, &["order.cancel"]).await;
    shop.deregister().await;
    until(&discovery, &[]).await;
    following.abort();
}
