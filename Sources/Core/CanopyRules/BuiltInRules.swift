internal import CanopyTree

/// The rules of the blog, for raw requests to the tree; its own requests (POST, STAR…) do not ask them.
///
/// What they see to, place by place, stands in the comments of the text. All in all: everybody writes
/// only what is theirs, and whatever one write may reach, a name, a count or a star says afterwards
/// what it should. Lengths are those of the blog, in UTF-16 code units, as the language counts.
public enum BuiltInRules {
  /// Returns the rules. The first call reads the text.
  ///
  /// - Throws: nothing as long as the tests pass.
  public static func load() throws(RulesError) -> RuleSet {
    try loaded.get()
  }

  private static let loaded = Result { () throws(RulesError) in
    try RuleSet(text: text, file: "built-in rules")
  }

  /// The rules as a file.
  public static let text = #"""
    {
      // What no rule grants is refused: the root, /posts, /user-posts and so on can be neither written
      // nor removed as a whole. A rule that needs a number or a text fails, and so refuses, where
      // there is something else. Nothing here has a priority.
      "rules": {
        // Profiles. The server claims the name in /usernames in the same commit, and refuses a name that
        // another user has. It gives up the old name, changes it in the user's posts and comments, and adds or
        // keeps createdAt.
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

        // Who has which name, by the name in lower case: always the one of the profile.
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

        // What is written to one copy of a post, the server writes to the other one as well, in the
        // same commit; a write that says different things about them is refused. With a post the
        // server removes its comments.
        "posts": {
          ".read": true,
          ".indexOn": "starCount",
          "$postid": {
    \#(post(depth: 2, uid: uid))
          }
        },

        // The same posts, by author. The server replaces the stars of a write here by those in /posts: a client
        // that toggles its star in both places, one after the other, would otherwise remove it again.
        "user-posts": {
          ".read": true,
          "$uid": {
            ".indexOn": "starCount",
            "$postid": {
    \#(post(depth: 3, uid: ownCopy))
            }
          }
        },

        // The server counts comments in both copies of the post, and lists them by author.
        "post-comments": {
          "$postid": {
            // Comments of a removed post may take the server a while to remove.
            ".read": "!root.child('deletions').child($postid).exists()",
            "$commentid": {
              ".write": "auth.uid != null && auth.uid ===
                (data.exists() ? data.child('uid').val() : newData.child('uid').val())",
              // A new one has a push id of about now, by which the author has no comment yet.
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

        // The post of each comment, by author: so that RENAME finds them.
        "user-comments": {
          ".read": true,
          "$uid": {
            "$commentid": {
              // As long as the comment is there, its entry stays.
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

  /// A post, in either of its places. Its keys are written out, as the two places differ only in how
  /// far the root is.
  private static func post(depth: Int, uid: String) -> String {
    #"""
            // Its author writes and removes it. Everybody who is logged in may change it; but what the
            // author wrote, the rules below let only them change. That leaves stars, and counts.
            ".write": "auth.uid != null && (data.exists()
              ? newData.exists() || data.child('uid').val() === auth.uid
              : newData.child('uid').val() === auth.uid)",

            // A new post has a push id of about now, which is not that of another author's removed post,
            // and nothing of an earlier post is left there. As long as the removal of its comments goes on,
            // the comments of a new post would be removed as well.
            //
            // Stars: the rule at stars/$uid lets no star of somebody else come to be. Here, the number
            // of stars may change only by the caller's own, so none of somebody else's can go either;
            // and starCount must change by the same. Missing counts are 0. But a post without starCount
            // comes after one with 0: so only the caller's own star adds starCount, and no request
            // removes it. commentCount comes and goes only with comments.
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

  /// The root after the write, seen from so many levels below it.
  private static func up(_ levels: Int) -> String {
    "newData" + String(repeating: ".parent()", count: levels)
  }

  private static let username = "^[A-Za-z0-9_-]{1,32}$"

  /// The condition on `uid`: it is the caller's when a post is written, and never changes.
  private static let uid = """
    newData.getPriority() === null \
    && newData.val() === (data.parent().exists() ? data.val() : auth.uid)
    """

  /// The condition on `uid` in the copy by author: it is also the user in the path, and the post in `/posts` has no other
  /// author.
  private static let ownCopy = """
    \(uid)
                && newData.val() === $uid
                && (!\(up(4)).child('posts').child($postid).exists()
                  || \(up(4)).child('posts').child($postid).child('uid').val() === $uid)
    """

  /// Whether a key is a push id of about now: at most so much older or newer as `Limits` says.
  private static func isTimely(_ key: String) -> String {
    """
    \(key).pushTime() >= now - \(Limits.pushIDAgeMax) \
    && \(key).pushTime() <= now + \(Limits.pushIDLeadMax)
    """
  }

  /// The name of the caller's profile, or what was there.
  private static func author(depth: Int) -> String {
    """
    newData.getPriority() === null && (newData.val() === data.val()
                || (newData.parent().child('uid').val() === auth.uid
                  && newData.val() === \(up(depth + 1)).child('users').child(auth.uid)
                    .child('username').val()))
    """
  }

  /// A text that is not blank. What is no text has no `length` that could be asked for: the rule fails.
  private static func text(unitsMax: Int) -> String {
    #"""
    newData.getPriority() === null && (newData.val() === data.val()
                || (newData.parent().child('uid').val() === auth.uid
                  && newData.val().length <= \#(unitsMax) && newData.val().matches(/\\S/)))
    """#
  }

  /// A time, fixed once set; not in the future. `{".sv": "timestamp"}` is the time of the write.
  private static func createdAt(if condition: String = "") -> String {
    """
    "createdAt": {
              ".validate": "newData.getPriority() === null
                && (data.exists() ? newData.val() === data.val() : \(condition)newData.val() > 0
                  && newData.val() <= now && newData.val() % 1 === 0)"
            }
    """
  }

  /// For the place above `createdAt`: a rule there is not asked when it is removed.
  private static let createdAtIsKept = """
    (!data.child('createdAt').exists() || newData.child('createdAt').exists())
    """

  /// Returns the number of stars that the caller has on a post: one or none.
  private static func ownStar(_ post: String) -> String {
    "(\(post).child('stars').hasChild(auth.uid) ? 1 : 0)"
  }

  /// Returns the number of comments on the post, below a root.
  private static func comments(_ root: String) -> String {
    "\(root).child('post-comments').child($postid).childCount()"
  }

  private static func count(_ post: String, _ name: String) -> String {
    "(\(post).child('\(name)').exists() ? \(post).child('\(name)').val() : 0)"
  }
}
