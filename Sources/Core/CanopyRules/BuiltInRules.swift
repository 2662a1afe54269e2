internal import CanopyTree

/// The rules of the blog, for raw requests to the tree. The requests of the blog (POST, STAR…) do not evaluate them.
///
/// Users write only their own data. After any write, names, counts and stars are correct. The comments in the text
/// describe each path. Lengths have the same limits as in the requests of the blog, in UTF-16 code units, because the
/// language of the rules counts these.
public enum BuiltInRules {
  /// Returns the rules. The first call parses the text.
  ///
  /// - Throws: `RulesError` if the text is invalid; tests exclude that.
  public static func load() throws(RulesError) -> RuleSet {
    try loaded.get()
  }

  private static let loaded = Result { () throws(RulesError) in
    try RuleSet(text: text, file: "built-in rules")
  }

  /// The text of the rules, as in a file of rules.
  public static let text = #"""
    {
      // Without a rule that grants it, a request is denied. So no client can write or remove the root,
      // /posts or /user-posts as a whole. Some rules work only with a number or a text. With a value of
      // another type such a rule fails, and the request is denied. No value may have a priority.
      "rules": {
        // The profile of each user. In the same commit, the server sets the uid of the name in /usernames. It
        // refuses a name that another user has. After a change, it removes the old name from /usernames and
        // writes the new one to the user's posts and comments. It adds createdAt if it is missing.
        "users": {
          "$uid": {
            ".read": true,
            ".write": "$uid === auth.uid && newData.exists()",
            ".validate": "newData.hasChild('username') && newData.getPriority() === null",
            "username": {
              ".validate": "newData.getPriority() === null
                && newData.val().matches(/\#(username)/)"
            },
            \#(createdAt()),
            "$other": { ".validate": false }
          }
        },

        // The uid of each user name, keyed by the lower-case name. It is always the name in the user's profile.
        "usernames": {
          "$name": {
            ".read": true,
            ".write": "auth.uid === (data.exists() ? data.val() : newData.val())
              && (newData.exists()
                || \#(up(2)).child('users').child(auth.uid).child('username').val().toLowerCase()
                  !== $name)",
            ".validate": "newData.getPriority() === null && newData.val() === auth.uid
              && \#(up(2)).child('users').child(auth.uid).child('username').val().toLowerCase()
                === $name"
          }
        },

        // The posts. /user-posts has a second copy of each. If a client writes one copy, the server makes the
        // same change in the other copy, in the same commit. If a write gives the copies different values, it
        // is denied. When a post is removed, the server removes its comments too.
        "posts": {
          ".read": true,
          ".indexOn": "starCount",
          "$postid": {
    \#(post(depth: 2, uid: uid))
          }
        },

        // The second copy of each post, by author. The server replaces the stars of a write here by those in
        // /posts. Otherwise a client that toggles its star in both copies, one after the other, would add the
        // star and then remove it.
        "user-posts": {
          ".read": true,
          "$uid": {
            ".indexOn": "starCount",
            "$postid": {
    \#(post(depth: 3, uid: ownCopy))
            }
          }
        },

        // The comments of each post. The server writes their number to both copies of the post, and adds an
        // entry for each comment to /user-comments.
        "post-comments": {
          "$postid": {
            // After the removal of a post, the server may need some time to remove all its comments. No
            // client can read them meanwhile.
            ".read": "!root.child('deletions').child($postid).exists()",
            "$commentid": {
              ".write": "auth.uid != null && auth.uid ===
                (data.exists() ? data.child('uid').val() : newData.child('uid').val())",
              // A new comment has a recent push id. The author has no comment with that id.
              ".validate": "newData.hasChildren(['uid', 'author', 'text'])
                && newData.getPriority() === null
                && \#(up(3)).child('posts').child($postid).exists()
                && \#(createdAtIsKept)
                && (data.exists() || (\#(isTimely("$commentid"))
                  && !root.child('user-comments').child(auth.uid).child($commentid).exists()))",
              "uid": { ".validate": "\#(uid)" },
              "author": { ".validate": "\#(author(depth: 3))" },
              "text": { ".validate": "\#(text(unitsMax: 10_000))" },
              \#(createdAt()),
              "$other": { ".validate": false }
            }
          }
        },

        // The id of the post of each comment, by author. RENAME finds the comments of a user here.
        "user-comments": {
          ".read": true,
          "$uid": {
            "$commentid": {
              // The entry cannot be removed while the comment exists.
              ".write": "$uid === auth.uid && (newData.exists()
                || !\#(up(3)).child('post-comments').child(data.val()).child($commentid).exists())",
              ".validate": "newData.getPriority() === null
                && \#(up(3)).child('post-comments').child(newData.val()).child($commentid)
                  .child('uid').val() === $uid"
            }
          }
        }
      }
    }

    """#

  /// Returns the rules of a post in `/posts` or in `/user-posts`.
  ///
  /// - Parameters:
  ///   - depth: the number of keys in the path of the post, by which the rules find the root.
  ///   - uid: the condition on the `uid` of the post.
  private static func post(depth: Int, uid: String) -> String {
    #"""
            // Only the author may create and remove a post. Every user who is logged in may change it, but the
            // rules below set limits: only the author may change author, title and body, and no user may
            // change uid. Others may change stars and counts.
            ".write": "auth.uid != null && (data.exists()
              ? newData.exists() || data.child('uid').val() === auth.uid
              : newData.child('uid').val() === auth.uid)",

            // New posts: the push id is recent. It is not the id of a post that another author has removed. No
            // comments of an earlier post with this id exist, and the server is not removing such comments: it
            // would remove those of the new post too.
            //
            // Stars: the rule at stars/$star prevents adding another user's star. Here, the number of stars may
            // change only by the caller's own star. That prevents removing another user's star. starCount must
            // change by the same number.
            //
            // Counts: a missing count is 0. But in the order by starCount, a post with 0 and a post without
            // starCount have different positions. So once the post exists, only a write that adds the caller's
            // own star may add starCount, and no write may remove it. commentCount may change only to the
            // number of comments after the write. It may be added or removed only if that number changes.
            ".validate": "newData.hasChildren(['uid', 'author', 'title', 'body'])
              && newData.getPriority() === null
              && \#(createdAtIsKept)
              && (data.exists() || (\#(isTimely("$postid"))
                && (!root.child('removed-posts').child($postid).exists()
                  || root.child('removed-posts').child($postid).val() === auth.uid)
                && !root.child('post-comments').child($postid).exists()
                && !root.child('deletions').child($postid).exists()))
              && newData.child('stars').childCount() - data.child('stars').childCount()
                === \#(ownStar("newData")) - \#(ownStar("data"))
              && \#(count("newData", "starCount")) - \#(count("data", "starCount"))
                === newData.child('stars').childCount() - data.child('stars').childCount()
              && (newData.child('starCount').exists() === data.child('starCount').exists()
                || !data.exists()
                || (newData.child('starCount').exists()
                  && \#(ownStar("newData")) !== \#(ownStar("data"))))
              && (newData.child('commentCount').val() === data.child('commentCount').val()
                || (\#(count("newData", "commentCount")) === \#(comments(up(depth)))
                  && (newData.child('commentCount').exists() === data.child('commentCount').exists()
                    || !data.exists()
                    || \#(comments(up(depth))) !== \#(comments("root")))))",
            "uid": { ".validate": "\#(uid)" },
            "author": { ".validate": "\#(author(depth: depth))" },
            "title": {
              ".validate": "\#(text(unitsMax: 200))
                && (newData.val() === data.val()
                  || !newData.val().matches(/[\u0000-\u001F\u007F-\u009F]/))"
            },
            "body": { ".validate": "\#(text(unitsMax: 65_536))" },
            \#(createdAt(if: "newData.parent().child('uid').val() === auth.uid && ")),
            "stars": {
              ".validate": "newData.hasChildren() && newData.getPriority() === null",
              "$star": {
                ".validate": "newData.val() === true && newData.getPriority() === null
                  && ($star === auth.uid || data.val() === true)"
              }
            },
            "starCount": {
              ".validate": "newData.getPriority() === null && newData.val() >= 0"
            },
            "commentCount": {
              ".validate": "newData.getPriority() === null"
            },
            "$other": { ".validate": false }
    """#
  }

  /// Returns the expression for the root after the write, for a rule that is `levels` keys below it.
  private static func up(_ levels: Int) -> String {
    "newData" + String(repeating: ".parent()", count: levels)
  }

  /// The pattern of a user name.
  private static let username = "^[A-Za-z0-9_-]{1,32}$"

  /// The condition on `uid`: in a new post or comment it is the uid of the caller. Afterwards it never changes.
  private static let uid = """
    newData.getPriority() === null \
    && newData.val() === (data.parent().exists() ? data.val() : auth.uid)
    """

  /// The condition on `uid` in `/user-posts`: it also equals the uid in the path, and the uid of the post in `/posts`
  /// if it exists there.
  private static let ownCopy = """
    \(uid)
                && newData.val() === $uid
                && (!\(up(4)).child('posts').child($postid).exists()
                  || \(up(4)).child('posts').child($postid).child('uid').val() === $uid)
    """

  /// Returns the condition that a key is a recent push id: `Limits` has the maximum difference from the current time.
  private static func isTimely(_ key: String) -> String {
    """
    \(key).pushTime() >= now - \(Limits.pushIDAgeMax) \
    && \(key).pushTime() <= now + \(Limits.pushIDLeadMax)
    """
  }

  /// Returns the condition on `author`: the user name of the caller's profile, or the old value.
  private static func author(depth: Int) -> String {
    """
    newData.getPriority() === null && (newData.val() === data.val()
                || (newData.parent().child('uid').val() === auth.uid
                  && newData.val() === \(up(depth + 1)).child('users').child(auth.uid)
                    .child('username').val()))
    """
  }

  /// Returns the condition on a text that only the author may change: it is the old value, or it is not blank and has
  /// at most `unitsMax` UTF-16 code units. A value of another type has no `length`, so the rule fails.
  private static func text(unitsMax: Int) -> String {
    #"""
    newData.getPriority() === null && (newData.val() === data.val()
                || (newData.parent().child('uid').val() === auth.uid
                  && newData.val().length <= \#(unitsMax) && newData.val().matches(/\\S/)))
    """#
  }

  /// Returns the rule of `createdAt`: a time that is not in the future and never changes. A client can write
  /// `{".sv": "timestamp"}`, which is the time of the write.
  private static func createdAt(if condition: String = "") -> String {
    """
    "createdAt": {
              ".validate": "newData.getPriority() === null
                && (data.exists() ? newData.val() === data.val() : \(condition)newData.val() > 0
                  && newData.val() <= now && newData.val() % 1 === 0)"
            }
    """
  }

  /// The condition that `createdAt` is not removed. The parent has this condition, because rules at `createdAt` do not
  /// run when it is removed.
  private static let createdAtIsKept = """
    (!data.child('createdAt').exists() || newData.child('createdAt').exists())
    """

  /// Returns the expression for the number of stars that the caller has on a post: 1 or 0.
  private static func ownStar(_ post: String) -> String {
    "(\(post).child('stars').hasChild(auth.uid) ? 1 : 0)"
  }

  /// Returns the expression for the number of comments on the post, below a root.
  private static func comments(_ root: String) -> String {
    "\(root).child('post-comments').child($postid).childCount()"
  }

  /// Returns the expression for a count of a post; 0 if it is missing.
  private static func count(_ post: String, _ name: String) -> String {
    "(\(post).child('\(name)').exists() ? \(post).child('\(name)').val() : 0)"
  }
}
