// swift-format-ignore-file: NeverForceUnwrap, NeverUseImplicitlyUnwrappedOptionals
// The published samples unwrap in this way.

import CanopyClient

/// The code shapes of the original's pages about one post, in the controller of a view, with the same calls. The
/// controller runs on the main actor.
@MainActor final class PostController {
  // The reference is created when the view appears.
  var ref: DatabaseReference!
  var postRef: DatabaseReference!
  var refHandle: DatabaseHandle!

  var shownPosts: [[String: AnyObject]] = []
  var profiles: [Profile] = []
  var outcomes: [String] = []

  func appear() {
    ref = Database.database().reference()
  }

  // MARK: Basic writes

  func setUser(_ user: User, _ username: String) {
    self.ref.child("users").child(user.uid).setValue(["username": username])
  }

  func setUsername(_ user: User, _ username: String) {
    self.ref.child("users/\(user.uid)/username").setValue(username)
  }

  func setUserAndTell(_ user: User, _ username: String) {
    ref.child("users").child(user.uid).setValue(["username": username]) {
      (error: Error?, ref: DatabaseReference) in
      if let error = error {
        self.outcomes.append("not saved: \(error)")
      } else {
        self.outcomes.append("saved \(ref.key ?? "")")
      }
    }
  }

  // MARK: Reading

  func observePost() {
    refHandle = postRef.observe(
      DataEventType.value,
      with: { (snapshot) in
        let postDict = snapshot.value as? [String: AnyObject] ?? [:]
        self.shownPosts.append(postDict)
      })
  }

  func readProfileOnce() {
    let userID = Auth.auth().currentUser?.uid
    ref.child("users").child(userID!).observeSingleEvent(
      of: .value,
      with: { (snapshot) in
        let value = snapshot.value as? NSDictionary
        let username = value?["username"] as? String ?? ""
        let user = Profile(username: username)
        self.profiles.append(user)
      }
    ) { (error) in
      self.outcomes.append(error.localizedDescription)
    }
  }

  // MARK: Several paths at once

  func publish(userID: String, username: String, title: String, body: String) {
    guard let key = ref.child("posts").childByAutoId().key else { return }
    let post = [
      "uid": userID,
      "author": username,
      "title": title,
      "body": body,
    ]
    let childUpdates = [
      "/posts/\(key)": post,
      "/user-posts/\(userID)/\(key)/": post,
    ]
    ref.updateChildValues(childUpdates)
  }

  func remove(_ key: String, of userID: String) {
    ref.updateChildValues(["/posts/\(key)": NSNull(), "/user-posts/\(userID)/\(key)": NSNull()])
  }

  // MARK: A transaction

  func toggleStar(on ref: DatabaseReference) {
    ref.runTransactionBlock({ (currentData: MutableData) -> TransactionResult in
      if var post = currentData.value as? [String: AnyObject],
        let uid = Auth.auth().currentUser?.uid
      {
        var stars: Dictionary<String, Bool>
        stars = post["stars"] as? [String: Bool] ?? [:]
        var starCount = post["starCount"] as? Int ?? 0
        if let _ = stars[uid] {
          starCount -= 1
          stars.removeValue(forKey: uid)
        } else {
          starCount += 1
          stars[uid] = true
        }
        post["starCount"] = starCount as AnyObject?
        post["stars"] = stars as AnyObject?
        currentData.value = post
        return TransactionResult.success(withValue: currentData)
      }
      return TransactionResult.success(withValue: currentData)
    }) { (error, committed, snapshot) in
      if let error = error {
        self.outcomes.append(error.localizedDescription)
      }
      self.outcomes.append("committed \(committed) \(snapshot?.key ?? "")")
    }
  }

  func disappear() {
    postRef.removeObserver(withHandle: refHandle)
  }
}
