// swift-format-ignore-file: NeverForceUnwrap, NeverUseImplicitlyUnwrappedOptionals
// The published samples unwrap in this way.

import CanopyClient

/// The code shapes of the original's pages about lists: comments in a table, and queries.
@MainActor final class CommentsController {
  let kSectionComments = 2
  var ref: DatabaseReference?
  var commentsRef: DatabaseReference
  var comments: [DataSnapshot] = []
  var tableView = UITableView()
  var listed: [[String]] = []

  init(post: String) {
    ref = Database.database().reference()
    commentsRef = Database.database().reference().child("post-comments").child(post)
  }

  func indexOfMessage(_ snapshot: DataSnapshot) -> Int {
    comments.firstIndex { $0.key == snapshot.key } ?? 0
  }

  func appear() {
    commentsRef.observe(
      .childAdded,
      with: { (snapshot) -> Void in
        self.comments.append(snapshot)
        self.tableView.insertRows(
          at: [IndexPath(row: self.comments.count - 1, section: self.kSectionComments)],
          with: UITableView.RowAnimation.automatic
        )
      })
    commentsRef.observe(
      .childRemoved,
      with: { (snapshot) -> Void in
        let index = self.indexOfMessage(snapshot)
        self.comments.remove(at: index)
        self.tableView.deleteRows(
          at: [IndexPath(row: index, section: self.kSectionComments)],
          with: UITableView.RowAnimation.automatic
        )
      })
  }

  func list() {
    commentsRef.observe(.value) { snapshot in
      var keys: [String] = []
      for child in snapshot.children {
        keys.append((child as? DataSnapshot)?.key ?? "")
      }
      self.listed.append(keys)
    }
  }

  func disappear() {
    commentsRef.removeAllObservers()
  }

  // MARK: Queries

  func getUid() -> String { Auth.auth().currentUser?.uid ?? "" }

  var myTopPosts: DatabaseQuery {
    let ref: DatabaseReference = Database.database().reference()
    let myTopPostsQuery = ref.child("user-posts").child(getUid()).queryOrdered(byChild: "starCount")
    return myTopPostsQuery
  }

  var mostViewed: DatabaseQuery {
    let ref: DatabaseReference! = Database.database().reference()
    let postsByMostPopular = ref.child("posts").queryOrdered(byChild: "metrics/views")
    return postsByMostPopular
  }

  var oldestPosts: DatabaseQuery {
    let recentPostsQuery = (ref?.child("posts").queryLimited(toFirst: 100))!
    return recentPostsQuery
  }
}
