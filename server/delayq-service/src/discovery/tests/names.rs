//! Names of DNS, asked of a small server.

use std::net::SocketAddr;

use tokio::net::UdpSocket;

use super::*;

const SRV: u16 = 33;
const A: u16 = 1;

/// A name as DNS writes it.
fn written(name: &str) -> Vec<u8> {
    let labels = name.trim_end_matches('.').split('.');
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// The records of a question: an address of either host, or both services.
fn records(name: &[u8], kind: u16) -> Vec<Vec<u8>> {
    let service = |port: u16, priority: u16, target: &str| {
        let mut data = priority.to_be_bytes().to_vec();
        data.extend(1_u16.to_be_bytes());
        data.extend(port.to_be_bytes());
        data.extend(written(target));
        data
    };
    let is = |other: &str| name.eq_ignore_ascii_case(&written(other));
    match kind {
        SRV if is("_delayq._tcp.shop.test") => vec![
            service(8_081, 10, "a.shop.test"),
            service(8_082, 10, "b.shop.test"),
            service(8_083, 20, "c.shop.test"),
        ],
        A if is("a.shop.test") => vec![vec![10, 0, 0, 1]],
        A if is("b.shop.test") => vec![vec![10, 0, 0, 2]],
        A if is("shop.test") => vec![vec![10, 0, 0, 2], vec![10, 0, 0, 1]],
        _ => Vec::new(),
    }
}

/// Answers questions as a server of DNS does.
async fn serve(socket: UdpSocket) {
    let mut packet = [0; 1_500];
    while let Ok((length, asker)) = socket.recv_from(&mut packet).await {
        let asked = &packet[..length];
        let name_end = 12 + asked[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
        let name = &asked[12..name_end];
        let kind = u16::from_be_bytes([asked[name_end], asked[name_end + 1]]);
        let records = records(name, kind);
        let mut answer = asked[..2].to_vec();
        answer.extend([0x85, 0x80, 0, 1]);
        answer.extend(u16::try_from(records.len()).unwrap().to_be_bytes());
        answer.extend([0; 4]);
        answer.extend(&asked[12..name_end + 4]);
        for data in records {
            answer.extend([0xc0, 0x0c]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 1]);
            answer.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            answer.extend(data);
        }
        socket.send_to(&answer, asker).await.ok();
    }
}

async fn server() -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    tokio::spawn(serve(socket));
    address
}

#[tokio::test]
async fn a_name_leads_to_its_addresses_and_a_service_to_its_hosts_and_ports() {
    let mut config = ServiceConfig {
        dns_servers: vec![server().await],
        refresh_ms: 100,
        ..ServiceConfig::default()
    };
    let names = [
        ("mail", "http://shop.test:8080"),
        ("order", "srv://_delayq._tcp.shop.test/work"),
        ("lost", "http://nowhere.test:8080"),
    ];
    for (task_type, url) in names {
        assert!(super::super::config::check_name(url).is_ok(), "{url}");
        config
            .dns
            .insert(task_type.to_owned(), vec![url.to_owned()]);
    }
    let discovery = Arc::new(Discovery::new(&config));
    let following = tokio::spawn(Arc::clone(&discovery).run());
    until_types(&discovery, &["mail", "order"]).await;
    let urls = |task_type: &str| {
        let task_type = TaskType::new(task_type).unwrap();
        let index = discovery.index();
        let urls = index.of(&task_type).iter().map(|one| one.url.clone());
        urls.collect::<Vec<_>>()
    };
    let mail = [
        "http://10.0.0.1:8080/delayq/work",
        "http://10.0.0.2:8080/delayq/work",
    ];
    assert_eq!(urls("mail"), mail);
    // Those of the worse priority are for when the others have gone.
    assert_eq!(
        urls("order"),
        ["http://10.0.0.1:8081/work", "http://10.0.0.2:8082/work"]
    );
    following.abort();
    for bad in ["shop.test", "ftp://shop.test", "srv://"] {
        assert!(super::super::config::check_name(bad).is_err(), "{bad}");
    }
}
