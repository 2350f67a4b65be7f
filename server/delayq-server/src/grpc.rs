//! The gRPC entry: the service `delayq.v1.Delayq`, server reflection and health.

use axum::Router;
use axum::extract::{Request as HttpRequest, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::Response as HttpResponse;
use delayq_proto::pb::delayq_server::DelayqServer;
use delayq_proto::{DESCRIPTORS, pb};
use tonic::codegen::http::Extensions;
use tonic::server::NamedService;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

mod batches;
mod call;
mod callees;
mod chronicle;
mod dead;
mod delivery;
mod documents;
mod history;
mod insight;
mod many;
mod moves;
mod operate;
mod policies;
mod presence;
mod pull;
mod recurring;
mod refusal;
mod replies;
mod sent;
mod targets;
mod task_type;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
mod wakeups;
mod work;

use call::{Call, Operation, Run};
use dead::ProgressStream;
use delayq_service::access::{Caller, Scope};
use delayq_service::app::App;
use delayq_service::grpc_server::{SMALL_BYTES, reflected, report_health};
use delayq_service::pull::Handover;
use refusal::CallError;
use wakeups::WakeupStream;

/// Room for the parts of a request other than messages, in bytes: task names, headers and
/// settlements.
const BATCH_BYTES: usize = 4 << 20;

/// The implementation of the service.
#[derive(Clone, Debug)]
struct GrpcService {
    app: App,
}

/// The routes of all gRPC services.
pub(crate) fn router(app: App) -> Router {
    let limit = app.config.max_message_bytes.saturating_add(BATCH_BYTES);
    let (health, health_service) = tonic_health::server::health_reporter();
    let health_service = health_service.max_decoding_message_size(SMALL_BYTES);
    let stopping = app.stopping.clone();
    tokio::spawn(report_health::<DelayqServer<GrpcService>>(health, stopping));
    let service = DelayqServer::new(GrpcService { app: app.clone() })
        .max_decoding_message_size(limit)
        .max_encoding_message_size(usize::MAX);
    let routes = Routes::new(service).add_service(health_service);
    // Unknown paths are answered by the HTTP routes.
    reflected(routes, DESCRIPTORS)
        .into_axum_router()
        .reset_fallback()
        .layer(map_response(delivery::delivering))
        .layer(from_fn_with_state(app, knock))
}

/// Refuses a call without a valid token before its message is read.
async fn knock(State(app): State<App>, request: HttpRequest, next: Next) -> HttpResponse {
    let path = request.uri().path().strip_prefix('/');
    if path.is_some_and(|path| path.starts_with(DelayqServer::<GrpcService>::NAME)) {
        let header = request.headers().get(AUTHORIZATION);
        let caller = Caller::presenting(header, request.extensions(), &app.tokens);
        if let Err(problem) = caller {
            return Status::from(CallError::from(problem)).into_http();
        }
    }
    next.run(request).await
}

impl GrpcService {
    /// Checks the caller and its right, and runs the operation.
    async fn answer<O: Run>(&self, request: Request<O>) -> Result<Response<O::Answer>, Status> {
        let (metadata, extensions, operation) = request.into_parts();
        let headers = metadata.into_headers();
        let answer = self.run(&headers, &extensions, operation).await;
        answer.map(Response::new).map_err(Status::from)
    }

    async fn run<O: Run>(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        operation: O,
    ) -> Result<O::Answer, CallError> {
        let namespace = operation.namespace();
        let call = Call::admit(&self.app, headers, extensions, namespace, O::SCOPE).await?;
        operation.run(&call).await
    }
}

/// Any token of the namespace suffices.
const ANY: Option<Scope> = None;
const SUBMIT: Option<Scope> = Some(Scope::Submit);
const WORK: Option<Scope> = Some(Scope::Work);
const READ: Option<Scope> = Some(Scope::Read);
const OPERATE: Option<Scope> = Some(Scope::Operate);
const ADMIN: Option<Scope> = Some(Scope::Admin);

/// Declares the answer of a request and the scope that it needs.
macro_rules! operation {
    ($request:ident -> $answer:ty, $scope:ident) => {
        impl Operation for pb::$request {
            type Answer = $answer;
            const SCOPE: Option<Scope> = $scope;

            fn namespace(&self) -> &str {
                &self.namespace
            }
        }
    };
}

operation!(WakeupsRequest -> WakeupStream, WORK);
operation!(RequeueSelectedRequest -> ProgressStream, OPERATE);
operation!(DiscardSelectedRequest -> ProgressStream, OPERATE);
operation!(PullRequest -> Handover, WORK);

/// Declares the unary methods of the service, with their answers and scopes.
macro_rules! service {
    ($($method:ident: $request:ident -> $answer:ident, $scope:ident;)*) => {
        $(operation!($request -> pb::$answer, $scope);)*

        #[tonic::async_trait]
        impl pb::delayq_server::Delayq for GrpcService {
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
    info: InfoRequest -> InfoResponse, ANY;
    check: CheckRequest -> CheckResponse, ANY;
    submit: SubmitRequest -> SubmitResponse, SUBMIT;
    find: FindRequest -> FindResponse, READ;
    cancel: CancelRequest -> CancelResponse, SUBMIT;
    cancel_each: CancelEachRequest -> CancelEachResponse, SUBMIT;
    reschedule: RescheduleRequest -> ChangeResponse, SUBMIT;
    update: UpdateRequest -> ChangeResponse, SUBMIT;
    buckets: BucketsRequest -> BucketsResponse, WORK;
    claim: ClaimRequest -> ClaimResponse, WORK;
    settle: SettleRequest -> SettleResponse, WORK;
    extend: ExtendRequest -> ExtendResponse, WORK;
    note_failure: NoteFailureRequest -> NoteFailureResponse, WORK;
    keep_reply: KeepReplyRequest -> KeepReplyResponse, WORK;
    get_reply: GetReplyRequest -> GetReplyResponse, READ;
    wait_for_reply: WaitForReplyRequest -> WaitForReplyResponse, SUBMIT;
    timeline: TimelineRequest -> TimelineResponse, READ;
    explain: ExplainRequest -> ExplainResponse, READ;
    search_history: SearchHistoryRequest -> SearchHistoryResponse, READ;
    what_became_of: WhatBecameOfRequest -> WhatBecameOfResponse, READ;
    forget_history: ForgetHistoryRequest -> ForgetHistoryResponse, ADMIN;
    overview: OverviewRequest -> OverviewResponse, READ;
    types: TypesRequest -> TypesResponse, READ;
    register_type: RegisterTypeRequest -> RegisterTypeResponse, WORK;
    configure_type: ConfigureTypeRequest -> ConfigureTypeResponse, ADMIN;
    stats: StatsRequest -> StatsResponse, READ;
    list: ListRequest -> ListResponse, READ;
    due_histogram: DueHistogramRequest -> DueHistogramResponse, READ;
    requeue_dead: RequeueDeadRequest -> RequeueDeadResponse, OPERATE;
    discard_dead: DiscardDeadRequest -> DiscardDeadResponse, OPERATE;
    dead_groups: DeadGroupsRequest -> DeadGroupsResponse, READ;
    cancel_all: CancelAllRequest -> ChangeAllResponse, OPERATE;
    reschedule_all: RescheduleAllRequest -> ChangeAllResponse, OPERATE;
    pause: PauseRequest -> PauseResponse, OPERATE;
    resume: ResumeRequest -> ResumeResponse, OPERATE;
    purge: PurgeRequest -> PurgeResponse, ADMIN;
    drop_type: DropTypeRequest -> DropTypeResponse, ADMIN;
    audit: AuditRequest -> AuditResponse, OPERATE;
    announce: AnnounceRequest -> AnnounceResponse, WORK;
    withdraw: WithdrawRequest -> WithdrawResponse, WORK;
    instances: InstancesRequest -> InstancesResponse, READ;
    send_batch: SendBatchRequest -> SendBatchResponse, SUBMIT;
    get_batch: GetBatchRequest -> GetBatchResponse, READ;
    cancel_batch: CancelBatchRequest -> ChangeAllResponse, SUBMIT;
    list_recurring: ListRecurringRequest -> ListRecurringResponse, READ;
    get_recurring: GetRecurringRequest -> RecurringResponse, READ;
    set_recurring: SetRecurringRequest -> RecurringResponse, OPERATE;
    remove_recurring: RemoveRecurringRequest -> RemoveRecurringResponse, OPERATE;
    pause_recurring: PauseRecurringRequest -> RecurringResponse, OPERATE;
    resume_recurring: ResumeRecurringRequest -> RecurringResponse, OPERATE;
    policies: PoliciesRequest -> PoliciesResponse, READ;
    get_policy: GetPolicyRequest -> PolicyResponse, READ;
    set_policy: SetPolicyRequest -> PolicyResponse, ADMIN;
    remove_policy: RemovePolicyRequest -> RemovePolicyResponse, ADMIN;
    targets: TargetsRequest -> TargetsResponse, READ;
    get_target: GetTargetRequest -> TargetResponse, READ;
    set_target: SetTargetRequest -> TargetResponse, ADMIN;
    remove_target: RemoveTargetRequest -> RemoveTargetResponse, ADMIN;
    callees: CalleesRequest -> CalleesResponse, READ;
    announce_callee: AnnounceCalleeRequest -> AnnounceCalleeResponse, WORK;
    withdraw_callee: WithdrawCalleeRequest -> WithdrawCalleeResponse, WORK;
    add_figures: AddFiguresRequest -> AddFiguresResponse, WORK;
    get_figures: GetFiguresRequest -> GetFiguresResponse, READ;
    log_action: LogActionRequest -> LogActionResponse, OPERATE;
    actions: ActionsRequest -> ActionsResponse, OPERATE;
    get_folder: GetFolderRequest -> GetFolderResponse, ADMIN;
    folder_revision: FolderRevisionRequest -> FolderRevisionResponse, ADMIN;
    write_document: WriteDocumentRequest -> WriteDocumentResponse, ADMIN;
    remove_document: RemoveDocumentRequest -> RemoveDocumentResponse, ADMIN;
    get_move: GetMoveRequest -> MoveResponse, OPERATE;
    begin_move: BeginMoveRequest -> MoveResponse, OPERATE;
    cancel_move: CancelMoveRequest -> MoveResponse, OPERATE;
}
