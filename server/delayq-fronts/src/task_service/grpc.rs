//! The service over gRPC.

use axum::extract::{Request as HttpRequest, State};
use axum::middleware::Next;
use axum::response::Response as HttpResponse;
use delayq_proto::pb::tasks;
use delayq_proto::pb::tasks::task_service_server::{TaskService, TaskServiceServer};
use delayq_service::access::Scope;
use delayq_service::grpc_server::status_of_problem;
use delayq_service::problem::Problem;
use delayq_service::stop::Stopping;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_health::server::HealthReporter;

use super::service::Service;
use super::wanted::Wanted;
use delayq_service::context::Context;

/// The bytes of a request other than its body.
const BESIDE_BYTES: usize = 64 * 1_024;

/// The gRPC service.
pub(super) fn service(service: Service) -> TaskServiceServer<Service> {
    let limit = service
        .app
        .config
        .max_message_bytes
        .saturating_add(BESIDE_BYTES);
    TaskServiceServer::new(service).max_decoding_message_size(limit)
}

/// Refuses a call without a valid token before its message is read.
pub(super) async fn knock(
    State(service): State<Service>,
    request: HttpRequest,
    next: Next,
) -> HttpResponse {
    let path = request.uri().path().strip_prefix('/');
    if path.is_some_and(|path| path.starts_with(TaskServiceServer::<Service>::NAME)) {
        let checked = service.check_caller(request.headers(), request.extensions());
        if let Err(problem) = checked {
            return status_of_problem(&problem.without_cause()).into_http();
        }
    }
    next.run(request).await
}

/// Reports the service as serving until the server begins to stop.
pub(super) async fn report_health(health: HealthReporter, stopping: Stopping) {
    delayq_service::grpc_server::report_health::<TaskServiceServer<Service>>(health, stopping)
        .await;
}

/// Admits a caller for a call.
async fn admit<T>(
    service: &Service,
    request: Request<T>,
    scope: Scope,
) -> Result<(Context, T), Status> {
    let (metadata, extensions, message) = request.into_parts();
    let headers = metadata.into_headers();
    let client = service.client(&headers, &extensions, scope).await;
    Ok((
        client.map_err(|problem| status_of_problem(&problem.without_cause()))?,
        message,
    ))
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl TaskService for Service {
    async fn create_http_task(
        &self,
        request: Request<tasks::CreateHttpTaskRequest>,
    ) -> Answer<tasks::CreateTaskResponse> {
        let (client, request) = admit(self, request, Scope::Submit).await?;
        let wanted =
            Wanted::http(request).map_err(|problem| status_of_problem(&problem.without_cause()))?;
        answer(self.create(&client, wanted).await)
    }

    async fn create_grpc_task(
        &self,
        request: Request<tasks::CreateGrpcTaskRequest>,
    ) -> Answer<tasks::CreateTaskResponse> {
        let (client, request) = admit(self, request, Scope::Submit).await?;
        let wanted = Wanted::grpc(request, &self.app.config)
            .map_err(|problem| status_of_problem(&problem.without_cause()))?;
        answer(self.create(&client, wanted).await)
    }

    async fn create_kafka_task(
        &self,
        request: Request<tasks::CreateKafkaTaskRequest>,
    ) -> Answer<tasks::CreateTaskResponse> {
        let (client, request) = admit(self, request, Scope::Submit).await?;
        let wanted = Wanted::kafka(request, &self.app.config)
            .map_err(|problem| status_of_problem(&problem.without_cause()))?;
        answer(self.create(&client, wanted).await)
    }

    async fn cancel_task(
        &self,
        request: Request<tasks::CancelTaskRequest>,
    ) -> Answer<tasks::CancelTaskResponse> {
        let (client, request) = admit(self, request, Scope::Submit).await?;
        answer(self.cancel(&client, &request.into()).await)
    }

    async fn query_task(
        &self,
        request: Request<tasks::QueryTaskRequest>,
    ) -> Answer<tasks::QueryTaskResponse> {
        let (client, request) = admit(self, request, Scope::Read).await?;
        answer(self.query(&client, &request.into()).await)
    }
}

fn answer<T>(answer: Result<T, Problem>) -> Answer<T> {
    answer
        .map(Response::new)
        .map_err(|problem| status_of_problem(&problem.without_cause()))
}
