import CanopyClient

// The blog on the command line. CANOPY_URL names the server; CANOPY_EMAIL and CANOPY_PASSWORD name
// the user.

let usage = """
  usage: canopy-blog signup NAME | post TITLE BODY | recent [COUNT] | star ID | comment ID TEXT
         | comments ID | watch
  """

func signedIn() async throws -> User {
  let environment = ProcessInfo.processInfo.environment
  guard let email = environment["CANOPY_EMAIL"], let password = environment["CANOPY_PASSWORD"]
  else {
    throw Blog.Failure(errorDescription: "set CANOPY_EMAIL and CANOPY_PASSWORD")
  }
  return try await Auth.auth().signIn(withEmail: email, password: password).user
}

func signUp(_ name: String) async throws {
  let environment = ProcessInfo.processInfo.environment
  let user = try await Auth.auth().createUser(
    withEmail: environment["CANOPY_EMAIL"] ?? "", password: environment["CANOPY_PASSWORD"] ?? "",
    username: name
  ).user
  print("signed up \(name) (\(user.uid))")
}

func run(_ arguments: [String]) async throws {
  let blog = Blog(Database.database())
  switch (arguments.first, arguments.count) {
  case ("signup", 2): try await signUp(arguments[1])
  case ("post", 3):
    print(try await blog.publish(title: arguments[1], body: arguments[2], by: signedIn()))
  case ("recent", 1...2):
    let count = arguments.count == 2 ? UInt(arguments[1]) ?? 0 : 10
    for (key, post) in try await blog.recent(count) {
      print("\(key)  \(post.title) (\(post.author), \(post.starCount ?? 0) stars)")
    }
  case ("star", 2):
    let (isStarred, count) = try await blog.toggleStar(on: arguments[1], by: signedIn())
    print(isStarred ? "starred; \(count) stars" : "not starred any more; \(count) stars")
  case ("comment", 3):
    print(try await blog.comment(on: arguments[1], arguments[2], by: signedIn()))
  case ("comments", 2):
    for comment in try await blog.comments(on: arguments[1]) {
      print("\(comment.author): \(comment.text)")
    }
  case ("watch", 1):
    for try await event in blog.coming {
      let post = try event.snapshot.data(as: Blog.Post.self)
      print("\(event.snapshot.key)  \(post.title) (\(post.author))")
    }
  default: throw Blog.Failure(errorDescription: usage)
  }
}

do {
  try await run(Array(CommandLine.arguments.dropFirst()))
} catch {
  FileHandle.standardError.write(Data("\(error.localizedDescription)\n".utf8))
  exit(1)
}
