//! The routes with their descriptions. The OpenAPI document is generated from the same list.

mod audit_log;
mod calls;
mod client_tools;
mod events;
mod policy;
mod questions;
mod service;
mod standing_approvals;
pub(crate) mod workers;

use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{Modify, OpenApi, ToSchema as _};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::api_types::{AnswerChoice, InputReview, OutputReview};
use crate::problem::{MEDIA, Problem, ProblemKind};
use crate::state::App;

/// The parts of the OpenAPI document apart from its routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Byleave",
        description = "Submit calls, answer questions and read the audit log.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    components(schemas(Problem)),
    security(("token" = [])),
    modifiers(&BearerAuthModifier),
)]
struct ApiDocument;

struct BearerAuthModifier;

impl Modify for BearerAuthModifier {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("A token from `byleave serve token add`"))
            .build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(bearer));
    }
}

/// The problems that any request may have.
const ANY: [ProblemKind; 6] = [
    ProblemKind::Malformed,
    ProblemKind::Unauthenticated,
    ProblemKind::Forbidden,
    ProblemKind::ForeignHost,
    ProblemKind::TooMany,
    ProblemKind::Fault,
];

/// Returns all routes.
pub(crate) fn all() -> OpenApiRouter<App> {
    let mut router = OpenApiRouter::with_openapi(ApiDocument::openapi())
        .routes(routes!(calls::submit))
        .routes(routes!(calls::show))
        .routes(routes!(calls::cancel))
        .routes(routes!(events::events))
        .routes(routes!(client_tools::register))
        .routes(routes!(client_tools::claim))
        .routes(routes!(client_tools::report))
        .routes(routes!(questions::list))
        .routes(routes!(questions::show))
        .routes(routes!(questions::answer))
        .routes(routes!(standing_approvals::list))
        .routes(routes!(standing_approvals::revoke))
        .routes(routes!(audit_log::calls))
        .routes(routes!(audit_log::record))
        .routes(routes!(audit_log::export))
        .routes(routes!(audit_log::verify))
        .routes(routes!(policy::tools))
        .routes(routes!(policy::explain))
        .routes(routes!(policy::replay))
        .routes(routes!(workers::list))
        .routes(routes!(service::halted, service::halt, service::lift))
        .routes(routes!(service::health))
        .routes(routes!(service::metrics))
        .routes(routes!(service::document));
    close_answers(router.get_openapi_mut());
    for item in router.get_openapi_mut().paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.post, &mut item.put, &mut item.delete];
        for operation in operations.into_iter().filter_map(Option::as_mut) {
            for trouble in ANY {
                let status = trouble.status().as_u16().to_string();
                operation.responses.responses.entry(status).or_insert_with(|| {
                    let schema = Ref::from_schema_name("Problem");
                    let content = ContentBuilder::new().schema(Some(schema)).build();
                    let said = trouble.meaning().trim();
                    ResponseBuilder::new().description(said).content(MEDIA, content).build().into()
                });
            }
        }
    }
    router
}

/// Notes in the document that answers and reviews have no other fields. The macro does this only for structs.
fn close_answers(document: &mut utoipa::openapi::OpenApi) {
    let Some(components) = &mut document.components else { return };
    for name in [AnswerChoice::name(), InputReview::name(), OutputReview::name()] {
        let Some(RefOr::T(Schema::OneOf(answers))) = components.schemas.get_mut(&*name) else { continue };
        for answer in &mut answers.items {
            if let RefOr::T(Schema::Object(answer)) = answer {
                answer.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
        }
    }
}
