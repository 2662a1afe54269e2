import CanopyTesting
import Testing

@testable import CanopyTree

/// Hashes compared with Python's (`base64(sha1(text))`, with the text written by hand) and with the
/// naive model's.
struct NodeHashTests {
  @Test(arguments: [
    ("true", "E5z61QM0lN/U2WsOnusszCTkR8M="),
    ("false", "aSSNoqcS4oQwJ2xxH20rvpp3zP0="),
    ("1", "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="),
    ("-0.5", "/r6we9NY8SVfOWrAH6omHfBJtYA="),
    ("0", "7ysMph9WPitGP7poMnMHMVPtUlI="),
    ("1e300", "PATxuxN46FZOmKG2i19P8ZCsqpw="),
    (#""a""#, "eMfSk0nU+CieTkCbO5r7cKNp7qU="),
    (#""""#, "Ki0Xy0V6morg0TO3Sxi/jwugYDQ="),
    (#""é🌳""#, "HNLm9/E4S0EjTm6AwESLLaj8LJI="),
    // priority:number:4000000000000000:number:3ff0000000000000
    (#"{".value":1,".priority":2}"#, "FvGzv2x5RbRTIc6uhMwY3pMW2oU="),
    (#"{".value":"x",".priority":"p"}"#, "Ee+tTXV5cvjTnBMuKXMyU8fA5VY="),
    // :a:<hash of a>:b:<hash of b>
    (#"{"b":"x","a":1}"#, "jRI9dwRS9sb4SWm8uuoN7+xBk4g="),
    // :9:… before :10:…, as integers
    (#"{"10":true,"9":true}"#, "diccQVI8LImfaOX3tx04eI9cRUY="),
    // By priority: none, numbers, strings.
    (
      #"{".priority":7,"a":{".value":1,".priority":2},"b":{".value":1,".priority":1},"#
        + #""c":1,"d":{".value":1,".priority":"a"}}"#,
      "pOCYEsufrQ0mwziblDrQeI6HCeQ="
    ),
    ("null", ""), ("{}", ""),
  ])
  func `a node has the hash of the official clients`(json: String, hash: String) throws {
    #expect(try Node(json: json).hash == hash)
  }

  @Test(arguments: [
    // The largest integers that doubles hold have the hash of the official clients.
    ("9007199254740992", "m4qsp/5BbIWTdjthNlnOX+WCTB0="),
    ("1152921504606846976", "MSg910wSc5MJ+gcHg8UCv0dIZmk="),
    // number:4340000000000000:9007199254740993
    ("9007199254740993", "CV3VO5pZbKF1ckIzAlkgCI4t6Ok="),
    ("-9007199254740993", "OpjC3v0piCc0gBgI5tQobbS9Eps="),
    // number:43e0000000000000:9223372036854775807
    ("9223372036854775807", "Yd4lTQEvaR2vHuhwVjJf4VFtwHE="),
    // priority:number:4340000000000000:9007199254740993:number:3ff0000000000000
    (#"{".value":1,".priority":9007199254740993}"#, "R0mGbApApDdkBgUym+KV9ig5d9o="),
  ])
  func `an integer that no double holds has a hash of its own`(json: String, hash: String) throws {
    #expect(try Node(json: json).hash == hash)
  }

  @Test func `random trees have the hashes of the naive model`() throws {
    try withSeed { random in
      for _ in 0..<300 {
        let model = random.tree(height: 3)
        try #require(model.node.hash == model.hash, "\(model.json)")
      }
    }
  }
}
