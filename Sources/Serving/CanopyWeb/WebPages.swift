/// The files that a browser gets from the HTTP port: the blog, the console, and the modules that both share.
///
/// The module knows no HTTP. It says which file belongs to a path; `CanopyGateway` sends it.
public enum WebPages {
  /// The page of the blog, which shows all its paths.
  private static let blog = "/blog/blog.html"
  /// The page of the console.
  private static let console = "/console/console.html"

  /// Returns the file that is served at a path. O(length of the path).
  ///
  /// - Parameter parts: the path between its slashes, decoded, without empty parts.
  /// - Returns: nil if there is no file.
  public static func file(at parts: [String]) -> WebFile? {
    if isOfBlog(parts) { return byPath[blog] }
    if parts == ["console"] { return byPath[console] }
    return byPath["/" + parts.joined(separator: "/")]
  }

  /// All modules that a page loads; empty for another file.
  ///
  /// The server names them in a field of its answer, so that the browser fetches all of them at once.
  public static func modules(of page: WebFile) -> [WebFile] {
    let folder = page.path == blog ? "/blog/" : "/console/"
    guard page.path == blog || page.path == console else { return [] }
    return all.filter { file in
      file.path.hasSuffix(".js")
        && (file.path.hasPrefix(folder) || file.path.hasPrefix("/shared/"))
    }
  }

  /// Whether a view of the blog has a path. The views are listed in `Pages/blog/app.js`, and a test compares them.
  public static func isOfBlog(_ parts: [String]) -> Bool {
    switch parts.count {
    case 0: true
    case 1: ["top", "mine", "write", "signin", "signup", "account"].contains(parts[0])
    case 2: ["post", "user"].contains(parts[0]) || parts == ["mine", "top"]
    case 3: parts[0] == "post" && parts[2] == "edit" || parts[0] == "user" && parts[2] == "top"
    default: false
    }
  }

  private static let byPath = Dictionary(uniqueKeysWithValues: all.map { ($0.path, $0) })

  /// All files. A test compares them with the folder `Pages`.
  ///
  /// The build embeds the bytes and names them by the names of the files, so the names differ in all folders.
  public static let all = [
    WebFile("/blog/account.js", PackageResources.account_js),
    WebFile("/blog/app.js", PackageResources.app_js),
    WebFile("/blog/blog.html", PackageResources.blog_html),
    WebFile("/blog/comments.js", PackageResources.comments_js),
    WebFile("/blog/editor.js", PackageResources.editor_js),
    WebFile("/blog/list-view.js", PackageResources.list_view_js),
    WebFile("/blog/lists.js", PackageResources.lists_js),
    WebFile("/blog/notices.js", PackageResources.notices_js),
    WebFile("/blog/paged-list.js", PackageResources.paged_list_js),
    WebFile("/blog/people.js", PackageResources.people_js),
    WebFile("/blog/post-view.js", PackageResources.post_view_js),
    WebFile("/blog/router.js", PackageResources.router_js),
    WebFile("/blog/session.js", PackageResources.session_js),
    WebFile("/blog/star-button.js", PackageResources.star_button_js),
    WebFile("/blog/states.js", PackageResources.states_js),
    WebFile("/console/backups-view.js", PackageResources.backups_view_js),
    WebFile("/console/chart.js", PackageResources.chart_js),
    WebFile("/console/clients-view.js", PackageResources.clients_view_js),
    WebFile("/console/console.css", PackageResources.console_css),
    WebFile("/console/console.html", PackageResources.console_html),
    WebFile("/console/data-view.js", PackageResources.data_view_js),
    WebFile("/console/diff.js", PackageResources.diff_js),
    WebFile("/console/directory.js", PackageResources.directory_js),
    WebFile("/console/explain.js", PackageResources.explain_js),
    WebFile("/console/export.js", PackageResources.export_js),
    WebFile("/console/format.js", PackageResources.format_js),
    WebFile("/console/inspector.js", PackageResources.inspector_js),
    WebFile("/console/log.js", PackageResources.log_js),
    WebFile("/console/main.js", PackageResources.main_js),
    WebFile("/console/metrics.js", PackageResources.metrics_js),
    WebFile("/console/parts.js", PackageResources.parts_js),
    WebFile("/console/people-view.js", PackageResources.people_view_js),
    WebFile("/console/query.js", PackageResources.query_js),
    WebFile("/console/rules-view.js", PackageResources.rules_view_js),
    WebFile("/console/tree.js", PackageResources.tree_js),
    WebFile("/console/value-field.js", PackageResources.value_field_js),
    WebFile("/console/watch-view.js", PackageResources.watch_view_js),
    WebFile("/shared/basics.js", PackageResources.basics_js),
    WebFile("/shared/elements.js", PackageResources.elements_js),
    WebFile("/shared/icon.svg", PackageResources.icon_svg),
    WebFile("/shared/line.js", PackageResources.line_js),
    WebFile("/shared/live-list.js", PackageResources.live_list_js),
    WebFile("/shared/style.css", PackageResources.style_css),
    WebFile("/shared/subscription.js", PackageResources.subscription_js),
  ]
}
