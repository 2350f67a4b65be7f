//! The gRPC door: service `delayq.v1.Delayq`, server reflection and health.

use axum::Router;
use axum::http::HeaderMap;
use axum::middleware::map_response;
use delayq_proto::pb::delayq_server::DelayqServer;
use delayq_proto::{DESCRIPTORS, pb};
use tonic::codegen::http::Extensions;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Request, Response, Status};
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

use crate::app::App;
use crate::problem::Problem;
use crate::stop::Stopping;

mod call;
mod callees;
mod chronicle;
mod dead;
mod deed;
mod delivery;
mod documents;
mod insight;
mod many;
mod moment;
mod moves;
mod operate;
mod presence;
mod pull;
mod refusal;
mod replies;
mod sent;
mod targets;
mod task_type;
mod tasks;
#[cfg(test)]
mod tests;
mod wakeups;
mod work;

use call::{Call, Operation};
use dead::ProgressStream;
use refusal::Refusal;
use wakeups::WakeupStream;

/// What a request holds beside messages: tasks with their names and headers, and settlements.
const BATCH_BYTES: usize = 4 << 20;

/// The door.
#[derive(Clone, Debug)]
struct Door {
    app: App,
}

/// The routes of all gRPC services.
pub(crate) fn router(app: App) -> Router {
    let limit = app.config.max_message_bytes.saturating_add(BATCH_BYTES);
    let (health, health_service) = tonic_health::server::health_reporter();
    let stopping = app.stopping.clone();
    tokio::spawn(report_health::<DelayqServer<Door>>(health, stopping));
    let service = DelayqServer::new(Door { app })
        .max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX);
    let routes = Routes::new(service).add_service(health_service);
    // What is no route is answered by the routes beside these.
    reflected(routes, DESCRIPTORS)
        .into_axum_router()
        .reset_fallback()
        .layer(map_response(delivery::delivering))
}

/// The same services, and server reflection for them.
pub(crate) fn reflected(routes: Routes, descriptors: &'static [u8]) -> Routes {
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(descriptors)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    match (descriptors().build_v1(), descriptors().build_v1alpha()) {
        (Ok(v1), Ok(v1alpha)) => routes.add_service(v1).add_service(v1alpha),
        (Err(error), _) | (_, Err(error)) => {
            tracing::error!(%error, "there is no server reflection");
            routes
        }
    }
}

/// A problem as a status.
pub(crate) fn status_of_problem(problem: Problem) -> Status {
    Refusal::untouched(problem).into()
}

/// The service is there until the server begins to end.
pub(crate) async fn report_health<S: NamedService>(health: HealthReporter, stopping: Stopping) {
    health.set_serving::<S>().await;
    stopping.left().await;
    for service in ["", S::NAME] {
        health
            .set_service_status(service, ServingStatus::NotServing)
            .await;
    }
}

impl Door {
    /// Checks who asks for what, and does it.
    async fn answer<O: Operation>(
        &self,
        request: Request<O>,
    ) -> Result<Response<O::Answer>, Status> {
        let (metadata, extensions, operation) = request.into_parts();
        let headers = metadata.into_headers();
        let answer = self.run(&headers, &extensions, operation).await;
        answer.map(Response::new).map_err(Status::from)
    }

    async fn run<O: Operation>(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        operation: O,
    ) -> Result<O::Answer, Refusal> {
        let namespace = operation.namespace();
        let call = Call::admit(&self.app, headers, extensions, namespace, O::SCOPE).await?;
        operation.run(&call).await
    }
}

/// The methods of the service that answer once: each is an [`Operation`] of its request.
macro_rules! service {
    ($($method:ident: $request:ident -> $answer:ident;)*) => {
        #[tonic::async_trait]
        impl pb::delayq_server::Delayq for Door {
            $(async fn $method(
                &self,
                request: Request<pb::$request>,
            ) -> Result<Response<pb::$answer>, Status> {
                self.answer(request).await
            })*

            type WakeupsStream = WakeupStream;

            async fn wakeups(
                &self,
                request: Request<pb::WakeupsRequest>,
            ) -> Result<Response<WakeupStream>, Status> {
                self.answer(request).await
            }

            type RequeueSelectedStream = ProgressStream;

            async fn requeue_selected(
                &self,
                request: Request<pb::RequeueSelectedRequest>,
            ) -> Result<Response<ProgressStream>, Status> {
                self.answer(request).await
            }

            type DiscardSelectedStream = ProgressStream;

            async fn discard_selected(
                &self,
                request: Request<pb::DiscardSelectedRequest>,
            ) -> Result<Response<ProgressStream>, Status> {
                self.answer(request).await
            }

            async fn pull(
                &self,
                request: Request<pb::PullRequest>,
            ) -> Result<Response<pb::PullResponse>, Status> {
                self.answer(request).await.map(delivery::carried)
            }

            type WorkStream = work::WorkStream;

            async fn work(
                &self,
                request: Request<tonic::Streaming<pb::WorkRequest>>,
            ) -> Result<Response<work::WorkStream>, Status> {
                work::open(&self.app, request)
            }
        }
    };
}

service! {
    info: InfoRequest -> InfoResponse;
    check: CheckRequest -> CheckResponse;
    submit: SubmitRequest -> SubmitResponse;
    find: FindRequest -> FindResponse;
    cancel: CancelRequest -> CancelResponse;
    cancel_each: CancelEachRequest -> CancelEachResponse;
    reschedule: RescheduleRequest -> ChangeResponse;
    update: UpdateRequest -> ChangeResponse;
    buckets: BucketsRequest -> BucketsResponse;
    claim: ClaimRequest -> ClaimResponse;
    settle: SettleRequest -> SettleResponse;
    extend: ExtendRequest -> ExtendResponse;
    note_failure: NoteFailureRequest -> NoteFailureResponse;
    keep_reply: KeepReplyRequest -> KeepReplyResponse;
    get_reply: GetReplyRequest -> GetReplyResponse;
    wait_for_reply: WaitForReplyRequest -> WaitForReplyResponse;
    timeline: TimelineRequest -> TimelineResponse;
    explain: ExplainRequest -> ExplainResponse;
    overview: OverviewRequest -> OverviewResponse;
    types: TypesRequest -> TypesResponse;
    register_type: RegisterTypeRequest -> RegisterTypeResponse;
    configure_type: ConfigureTypeRequest -> ConfigureTypeResponse;
    stats: StatsRequest -> StatsResponse;
    list: ListRequest -> ListResponse;
    due_histogram: DueHistogramRequest -> DueHistogramResponse;
    requeue_dead: RequeueDeadRequest -> RequeueDeadResponse;
    discard_dead: DiscardDeadRequest -> DiscardDeadResponse;
    dead_groups: DeadGroupsRequest -> DeadGroupsResponse;
    cancel_all: CancelAllRequest -> ChangeAllResponse;
    reschedule_all: RescheduleAllRequest -> ChangeAllResponse;
    pause: PauseRequest -> PauseResponse;
    resume: ResumeRequest -> ResumeResponse;
    purge: PurgeRequest -> PurgeResponse;
    drop_type: DropTypeRequest -> DropTypeResponse;
    audit: AuditRequest -> AuditResponse;
    announce: AnnounceRequest -> AnnounceResponse;
    withdraw: WithdrawRequest -> WithdrawResponse;
    instances: InstancesRequest -> InstancesResponse;
    targets: TargetsRequest -> TargetsResponse;
    get_target: GetTargetRequest -> TargetResponse;
    set_target: SetTargetRequest -> TargetResponse;
    remove_target: RemoveTargetRequest -> RemoveTargetResponse;
    callees: CalleesRequest -> CalleesResponse;
    announce_callee: AnnounceCalleeRequest -> AnnounceCalleeResponse;
    withdraw_callee: WithdrawCalleeRequest -> WithdrawCalleeResponse;
    add_figures: AddFiguresRequest -> AddFiguresResponse;
    get_figures: GetFiguresRequest -> GetFiguresResponse;
    log_action: LogActionRequest -> LogActionResponse;
    actions: ActionsRequest -> ActionsResponse;
    get_folder: GetFolderRequest -> GetFolderResponse;
    folder_revision: FolderRevisionRequest -> FolderRevisionResponse;
    write_document: WriteDocumentRequest -> WriteDocumentResponse;
    remove_document: RemoveDocumentRequest -> RemoveDocumentResponse;
    get_move: GetMoveRequest -> MoveResponse;
    begin_move: BeginMoveRequest -> MoveResponse;
    cancel_move: CancelMoveRequest -> MoveResponse;
}
