/// The dialect of PostgreSQL. Each request is one prepared statement with one Sync, so one round trip and one
/// transaction.
///
/// The client sends Bind, Execute and Sync together. A request that writes to several tables uses a common table
/// expression or a function, which avoids the messages of BEGIN and COMMIT and repeated planning.
struct PostgresDialect: Dialect {
  typealias Framer = PostgresFramer

  /// The ids of posts and users are integers, as usual in a relational database. The count of stars is stored once,
  /// because a join is cheap there; Canopy and the sorted sets of Redis store it twice.
  static let schema = """
    CREATE TABLE posts (
      id bigserial PRIMARY KEY, uid integer NOT NULL, author text NOT NULL, title text NOT NULL,
      body text NOT NULL, created_at bigint NOT NULL, star_count integer NOT NULL DEFAULT 0,
      comment_count integer NOT NULL DEFAULT 0);
    CREATE TABLE user_posts (
      uid integer NOT NULL, id bigint NOT NULL, author text NOT NULL, title text NOT NULL,
      body text NOT NULL, created_at bigint NOT NULL, PRIMARY KEY (uid, id));
    CREATE TABLE stars (post bigint NOT NULL, uid integer NOT NULL, PRIMARY KEY (post, uid));
    CREATE TABLE comments (
      id bigserial PRIMARY KEY, post bigint NOT NULL, uid integer NOT NULL, author text NOT NULL,
      text text NOT NULL, created_at bigint NOT NULL);
    """
  static let indexes = """
    CREATE INDEX posts_of_user_by_stars ON posts (uid, star_count, id);
    CREATE INDEX posts_by_stars ON posts (star_count, id);
    CREATE INDEX comments_of_post ON comments (post, id);
    """

  /// Transactions that star one post take an advisory lock before they change the row. This is two to three times as
  /// fast as contention for the row, and not slower without contention.
  static let functions = """
    CREATE FUNCTION toggle_star(
      starred_post bigint, user_id integer, OUT starred boolean, OUT count integer)
    LANGUAGE plpgsql AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock(starred_post);
      INSERT INTO stars VALUES (starred_post, user_id) ON CONFLICT DO NOTHING;
      starred := FOUND;
      IF NOT starred THEN
        DELETE FROM stars WHERE post = starred_post AND uid = user_id;
      END IF;
      UPDATE posts SET star_count = star_count + CASE WHEN starred THEN 1 ELSE -1 END
      WHERE id = starred_post RETURNING star_count INTO count;
    END $$;
    """

  private static let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
  private static let columns =
    "id, uid, author, title, body, created_at, star_count, comment_count"
  static let statements: [(name: String, text: String)] = [
    (
      "post",
      """
      WITH post AS (
        INSERT INTO posts (uid, author, title, body, created_at)
        VALUES ($1::integer, 'user' || $1::integer, $2, $3, \(now))
        RETURNING uid, id, author, title, body, created_at)
      INSERT INTO user_posts SELECT * FROM post RETURNING id
      """
    ),
    ("star", "SELECT starred, count FROM toggle_star($1::bigint, $2::integer)"),
    (
      "comment",
      """
      WITH post AS (
        UPDATE posts SET comment_count = comment_count + 1 WHERE id = $1::bigint)
      INSERT INTO comments (post, uid, author, text, created_at)
      VALUES ($1::bigint, $2::integer, 'user' || $2::integer, $3, \(now))
      RETURNING id
      """
    ),
    ("show", "SELECT \(columns) FROM posts WHERE id = $1::bigint"),
    (
      "recent",
      "SELECT \(columns) FROM posts ORDER BY id DESC LIMIT \(BlogRequest.recentCount)"
    ),
    (
      "top",
      """
      SELECT \(columns) FROM posts WHERE uid = $1::integer
      ORDER BY uid DESC, star_count DESC, id DESC LIMIT \(BlogRequest.topCount)
      """
    ),
    ("ping", "SELECT 1"),
  ]

  private let data: DataSet
  private let recent: [UInt8]

  init(_ data: DataSet) {
    self.data = data
    var bytes: [UInt8] = []
    bytes.append(call: "recent", formats: []) { _ in }
    recent = bytes
  }

  func write(_ request: BlogRequest, as user: Int, to output: inout [UInt8]) {
    switch request {
    case .ping:
      output.append(call: "ping", formats: []) { _ in }
    case .post(let number):
      output.append(call: "post", formats: [1, 0, 0]) {
        $0.append(user: user)
        $0.append(text: { title in
          title += "Post number ".utf8
          title.append(decimal: number)
        })
        $0.append(text: { data.appendBody(of: number, to: &$0) })
      }
    case .star(let post):
      output.append(call: "star", formats: [1, 1]) {
        $0.append(post: post)
        $0.append(user: user)
      }
    case .comment(let post):
      output.append(call: "comment", formats: [1, 1, 0]) {
        $0.append(post: post)
        $0.append(user: user)
        $0.append(text: { $0 += BlogRequest.comment.utf8 })
      }
    case .show(let post):
      output.append(call: "show", formats: [1]) { $0.append(post: post) }
    case .recent:
      output += recent
    case .top:
      output.append(call: "top", formats: [1]) { $0.append(user: user) }
    }
  }

  func check(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, to request: BlogRequest, as user: Int,
    isThorough: Bool
  ) -> Verdict {
    switch request {
    case .post:
      return frame.rows == 1 ? .posted : .wrong
    case .ping, .comment:
      return Verdict(frame.rows == 1)
    case .star:
      // A row has its type, length, number of columns, length of the first column, and that column, which is one byte.
      guard frame.rows == 1, frame.firstRow + 12 <= bytes.count else { return .wrong }
      return .starred(bytes[frame.firstRow + 11] == 1)
    case .show(let post):
      guard frame.rows == 1, bytes.count > data.bodyBytes else { return .wrong }
      return Verdict(!isThorough || bytes.contains(data.body(post)))
    case .recent:
      return checkList(frame, bytes, BlogRequest.recentCount, isThorough)
    case .top:
      return checkList(frame, bytes, BlogRequest.topCount, isThorough)
    }
  }

  private func checkList(
    _ frame: Frame, _ bytes: UnsafeRawBufferPointer, _ count: Int, _ isThorough: Bool
  ) -> Verdict {
    guard frame.rows == count else { return .wrong }
    return Verdict(!isThorough || bytes.occurrences(of: DataSet.mark) == count)
  }
}

extension [UInt8] {
  fileprivate mutating func append(text: (inout [UInt8]) -> Void) {
    append(parameter: text)
  }

  fileprivate mutating func append(user: Int) {
    append(parameter: { $0.append(bigEndian: Int32(user)) })
  }

  /// Returns the id of a post. Ids begin at one.
  fileprivate mutating func append(post: Int) {
    append(parameter: { $0.append(bigEndian: Int64(post + 1)) })
  }
}
