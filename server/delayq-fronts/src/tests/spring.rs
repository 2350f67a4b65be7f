//! The paths of the Spring delay queue.

use serde_json::Value;

use super::*;
use crate::spring::router;

const SOURCE: &str = include_str!("../spring.rs");

pub(super) struct Paths {
    router: Router,
    server: Server,
}

impl Paths {
    pub(super) async fn open() -> Self {
        let server = Server::in_memory().await;
        let space = server.app.spaces.of(&Namespace::default()).await.unwrap();
        let job = delayq_plugin::DelayQueueJob::raw("shop-mail", "a secret");
        let job = job.id("a").after(std::time::Duration::from_hours(1));
        space.tasks.send(job).await.unwrap();
        let router = router(server.app.clone());
        Self { router, server }
    }
}

impl Guarded for Paths {
    fn router(&self) -> &Router {
        &self.router
    }

    fn server(&self) -> &Server {
        &self.server
    }

    fn routes(&self) -> Vec<Route> {
        let job = r#"{"taskId": "b", "taskType": "mail", "appName": "shop", "params": "x"}"#;
        vec![
            Route::new("POST", "/job/add", &[Scope::Submit]).body(job),
            Route::new("GET", "/task/type/list", &[Scope::Read]).of_all_types(),
            Route::new("GET", "/discovery/service_info", &[Scope::Read]),
        ]
    }

    fn named(&self) -> BTreeSet<(String, String)> {
        routes_of("", SOURCE)
    }

    /// With the token as a header, and in the path.
    async fn intruders(&self, route: &Route) -> Vec<Intruder> {
        let mut intruders = vec![Intruder::new("nobody", Some(401))];
        for (who, token, status) in tokens(&self.server, route).await {
            let intruder = Intruder::new(who, status);
            let in_path = Intruder {
                before: format!("/token/{token}"),
                ..intruder.clone()
            };
            let header = intruder.with("authorization", format!("Bearer {token}"));
            intruders.extend([header, in_path]);
        }
        intruders
    }

    async fn owner(&self, route: &Route) -> Intruder {
        token_owner(&self.server, route).await
    }

    fn is_own(&self, answer: &Answer) -> bool {
        let body: Value = serde_json::from_str(&answer.text).unwrap_or_default();
        let path = body["path"].as_str().unwrap_or("/token/");
        let is_form = body["status"] == answer.status && body["timestamp"].is_string();
        is_form && body["error"].is_string() && !path.starts_with("/token/")
    }
}
