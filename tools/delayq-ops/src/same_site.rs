//! Where a request of a browser comes from.

/// Returns true unless the browser says that a request comes from another site. `header` returns
/// the text of a header, and `authority` is that of the request's URI.
///
/// A request without this information is accepted, because browsers send it with every form.
/// `Origin: null` is that of another site: browsers send it for pages that hide where they are,
/// such as those in a sandbox. A page whose own forms need this check must not send
/// `Referrer-Policy: no-referrer`, because its own origin is then `null`, too.
pub fn is_same_site<'a>(
    header: impl Fn(&str) -> Option<&'a str>,
    authority: Option<&'a str>,
) -> bool {
    if let Some(site) = header("sec-fetch-site") {
        return site == "same-origin";
    }
    let Some(origin) = header("origin") else {
        return true;
    };
    let own = header("host").or(authority);
    let host = origin.split_once("://").map(|(_, host)| host);
    own.is_some() && host == own
}
