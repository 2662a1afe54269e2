import CanopySocial
import CanopyTesting
import CanopyTree
import Testing

@Suite(.timeLimit(.minutes(20))) struct RandomSocialTests {
  /// A simple model of the blog.
  private struct Model {
    struct Post {
      var uid: Key
      var title: String
      var body: String
      var stars: Set<Key> = []
      var comments: [Key: (uid: Key, text: String)] = [:]
    }

    var names: [Key: String] = ["ada": "ada", "bob": "bob", "eve": "eve"]
    var posts: [Key: Post] = [:]

    func isFree(_ name: String, for uid: Key) -> Bool {
      !names.contains { $0.key != uid && $0.value.lowercased() == name.lowercased() }
    }
  }

  @Test func `after random requests, the tree is consistent and equal to the model`()
    async throws
  {
    var random = SeededGenerator(printingSeedFor: "RandomSocialTests")
    let seed = random.next()
    try await Blog.with(seed: seed) { blog in
      var random = SeededGenerator(seed: seed)
      var model = Model()
      for _ in 0..<400 {
        if random.oneIn(3) { blog.clock.advance(Int64.random(in: -5...20, using: &random)) }
        try await step(blog, &model, &random)
        expectEqual(blog, model)
      }
    }
  }

  private func step(
    _ blog: Blog, _ model: inout Model, _ random: inout SeededGenerator
  ) async throws {
    let uid = random.pick(["ada", "bob", "eve", "zoe", "kim"] as [Key])
    let isUser = model.names[uid] != nil
    let id = model.posts.keys.sorted().randomElement(using: &random) ?? "nothing"
    let post = model.posts[id]
    let text = "text \(random.next() % 1_000)"
    switch Int.random(in: 0..<10, using: &random) {
    case 0, 1:
      let create: BlogTransaction<Key> = {
        try Posts.create(by: uid, title: text, body: text + "!", in: &$0)
      }
      if isUser {
        model.posts[try await blog.make(create)] = .init(uid: uid, title: text, body: text + "!")
      } else {
        await blog.refusal(of: create)
      }
    case 2:
      let edit: BlogTransaction<Void> = {
        try Posts.edit(id, by: uid, title: text, body: text, in: &$0)
      }
      if post?.uid == uid {
        try await blog.make(edit)
        model.posts[id]?.title = text
        model.posts[id]?.body = text
      } else {
        await blog.refusal(of: edit)
      }
    case 3 where random.oneIn(3):
      if post?.uid == uid {
        try await blog.make { try Posts.delete(id, by: uid, in: &$0) }
        model.posts[id] = nil
      } else {
        await blog.refusal { try Posts.delete(id, by: uid, in: &$0) }
      }
    case 3, 4, 5:
      if post == nil {
        await blog.refusal { try Posts.toggleStar(id, by: uid, in: &$0) }
      } else {
        try await blog.star(uid, id)
        model.posts[id]?.stars.formSymmetricDifference([uid])
      }
    case 6, 7:
      let create: BlogTransaction<Key> = {
        try Comments.create(on: id, by: uid, text: text, in: &$0)
      }
      if post != nil, isUser {
        model.posts[id]?.comments[try await blog.make(create)] = (uid, text)
      } else {
        await blog.refusal(of: create)
      }
    case 8:
      let comment = post?.comments.keys.sorted().randomElement(using: &random) ?? "nothing"
      let delete: BlogTransaction<Void> = {
        try Comments.delete(comment, on: id, by: uid, in: &$0)
      }
      if let author = post?.comments[comment]?.uid, author == uid || post?.uid == uid {
        try await blog.make(delete)
        model.posts[id]?.comments[comment] = nil
      } else {
        await blog.refusal(of: delete)
      }
    default:
      let name = random.pick(["Ada", "ada", "Bob", "Zoe", "ZOE", "Kim", "eve", "Eve-2"])
      let isFree = model.isFree(name, for: uid)
      let transaction: BlogTransaction<Void> = {
        isUser
          ? try Users.rename(uid, to: name, in: &$0) : try Users.claim(name, for: uid, in: &$0)
      }
      if isFree {
        try await blog.make(transaction)
        model.names[uid] = name
      } else {
        await blog.refusal(of: transaction)
      }
    }
  }

  private func expectEqual(_ blog: Blog, _ model: Model) {
    let root = blog.root
    #expect(Users.username(of: "ada", in: root) == model.names["ada"])
    #expect(root.child("users").childCount == model.names.count)
    #expect(root.child("posts").childCount == model.posts.count)
    for (id, post) in model.posts {
      let node = root.child("posts").child(id)
      #expect(node.child("title") == Node(post.title))
      #expect(node.child("body") == Node(post.body))
      #expect(node.child("author").stringValue == model.names[post.uid])
      #expect(node.child("starCount") == Node(Int64(post.stars.count)))
      let stars = Node(children: post.stars.map { ($0, true) })
      #expect(node.child("stars") == stars)
      let comments = root.child("post-comments").child(id)
      #expect(comments.childCount == post.comments.count)
      for (key, comment) in post.comments {
        #expect(comments.child(key).child("text") == Node(comment.text))
        #expect(comments.child(key).child("author").stringValue == model.names[comment.uid])
      }
      let copy = root.child("user-posts").child(post.uid).child(id)
      #expect(copy.isIdentical(to: node), "both copies are one in memory")
    }
  }
}
