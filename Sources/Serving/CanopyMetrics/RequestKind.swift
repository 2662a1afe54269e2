public import CanopyWire

/// The kinds of requests that metrics tell apart: the verbs of the line protocol, and their counterparts in others.
public enum RequestKind: UInt8, CaseIterable, Sendable {
  case hello, ping, help, whoami, get, count, info
  case rules, setrules, explain, checkrules, keys
  case users, user, disable, enable, setpassword, sessions, endsessions
  case metrics, log, clients, client, endclient
  case show, comments, recent, posts, top, profile
  case post, edit, delete, star, comment, uncomment, rename
  case set, update, cas, push, once
  case signup, login, auth, logout, password
  case account, anonymous, custom, issue, confirm, credentials, deleteaccount, idtoken
  case forgot, reset, verify
  case listen, watch, unlisten
  case quit, use, ondisconnect

  /// The kind of a request.
  public init(_ request: Request) {
    switch request {
    case .read(let read): self.init(read)
    case .write(let write): self.init(write)
    case .account(let account):
      self =
        switch account {
        case .signUp: .signup
        case .logIn: .login
        case .authenticate: .auth
        case .logOut: .logout
        case .changePassword: .password
        case .account: .account
        case .signUpAnonymously: .anonymous
        case .logInCustom: .custom
        case .issueCustomToken: .issue
        case .confirm: .confirm
        case .changeCredentials: .credentials
        case .deleteAccount: .deleteaccount
        case .identityToken: .idtoken
        case .forgotPassword: .forgot
        case .resetPassword: .reset
        case .verifyEmail: .verify
        }
    case .listen(let listen):
      self =
        switch listen {
        case .listen, .info: .listen
        case .watch: .watch
        case .unlisten: .unlisten
        }
    case .connection(.quit): self = .quit
    case .connection(.use): self = .use
    case .connection(.onDisconnect): self = .ondisconnect
    case .administration(let administration):
      self =
        switch administration {
        case .setRules: .setrules
        case .checkRules: .checkrules
        case .explain: .explain
        case .users: .users
        case .user: .user
        case .setDisabled(true, _): .disable
        case .setDisabled(false, _): .enable
        case .setPassword: .setpassword
        case .sessions: .sessions
        case .endSessions: .endsessions
        case .metrics: .metrics
        case .log: .log
        case .clients: .clients
        case .client: .client
        case .endClient: .endclient
        }
    }
  }

  /// The kind of a read.
  public init(_ read: ReadRequest) {
    self =
      switch read {
      case .hello: .hello
      case .ping: .ping
      case .help: .help
      case .whoAmI: .whoami
      case .get: .get
      case .count: .count
      case .info: .info
      case .rules: .rules
      case .keys: .keys
      case .blog(.show): .show
      case .blog(.comments): .comments
      case .blog(.recent): .recent
      case .blog(.posts): .posts
      case .blog(.top): .top
      case .blog(.profile): .profile
      }
  }

  /// The kind of a write.
  public init(_ write: WriteRequest) {
    self =
      switch write {
      case .rename: .rename
      case .blog(.post): .post
      case .blog(.edit): .edit
      case .blog(.delete): .delete
      case .blog(.star): .star
      case .blog(.comment): .comment
      case .blog(.uncomment): .uncomment
      case .push: .push
      case .once: .once
      case .tree(.set): .set
      case .tree(.update): .update
      case .tree(.compareAndSet): .cas
      }
  }

  /// The position in a table.
  var index: Int { Int(rawValue) }
}
