import CanopyTree
import Testing

@testable import CanopyRules

struct ExplanationTests {
  let notes: RuleSet

  init() throws {
    notes = try rules(
      """
      { "rules": {
        ".read": "auth.token.admin",
        "notes": { "$uid": {
          ".read": "auth != null && auth.uid === $uid",
          ".write": "auth.uid === $uid",
          ".validate": "newData.child('text').val().length + 1 < 10 || false"
        } }
      } }
      """)
  }

  @Test func `an explanation has each evaluated rule, with the value of each part`() throws {
    let explanation = notes.explainRead(try Path("notes/ann/text"), in: .absent, as: user("ann"))
    #expect(explanation.verdict == .allowed)
    #expect(explanation.steps.map(\.rule) == ["/.read", "/notes/$uid/.read"])
    #expect(explanation.steps.map(\.line) == [2, 4])
    #expect(explanation.steps.map(\.location) == ["/", "/notes/ann"])
    #expect(
      explanation.steps.map(\.outcome) == [.failed("expected a bool; this is null"), .isTrue])
    let parts = explanation.steps[1].parts.map { "\($0.text) => \($0.value)" }
    #expect(
      parts == [
        "auth => {2 children}", "auth != null => true", #"auth.uid => "ann""#, #"$uid => "ann""#,
        "auth.uid === $uid => true", "auth != null && auth.uid === $uid => true",
      ])
  }

  @Test func `parts that were not evaluated are not in the explanation`() throws {
    let explanation = notes.explainRead(try Path("notes/ann"), in: .absent, as: nobody)
    #expect(
      explanation.steps[1].parts.map(\.text)
        == ["auth", "auth != null", "auth != null && auth.uid === $uid"])
    let path = try Path("notes/ann")
    #expect(explanation.verdict == .denied(.notGranted(.read, at: path)))
  }

  @Test func `an explanation of a write ends with the rule that decided`() throws {
    let write = try Write.set(
      try Location("notes/ann"), try WriteValue(json: #"{"text":"far too long"}"#))
    let explanation = notes.explain(write, in: .absent, as: user("ann"))
    #expect(
      explanation.text == """
        /notes/$uid/.write (line 5) at /notes/ann: true
            auth.uid  =>  "ann"
            $uid  =>  "ann"
            auth.uid === $uid  =>  true
        /notes/$uid/.validate (line 6) at /notes/ann: false
            newData.child('text').val()  =>  "far too long"
            newData.child('text').val().length  =>  12
            newData.child('text').val().length + 1  =>  13
            newData.child('text').val().length + 1 < 10  =>  false
            newData.child('text').val().length + 1 < 10 || false  =>  false
        denied: the rule /notes/$uid/.validate does not hold at /notes/ann
        """)
  }

  @Test func `a part has its byte range in the expression`() throws {
    let explanation = notes.explainRead(try Path("notes/ann"), in: .absent, as: user("ann"))
    for step in explanation.steps {
      for part in step.parts {
        let bytes = Array(step.text.utf8)[part.range]
        #expect(String(decoding: bytes, as: UTF8.self) == part.text)
      }
    }
  }

  @Test func `long values are shortened`() throws {
    let rules = try rules(#"{"rules":{".read":"root.val() == 'x'"}}"#)
    let text = String(repeating: "é", count: 100_000)
    let explanation = rules.explainRead(.root, in: Node(text), as: nobody)
    #expect(explanation.text.utf8.count < 400)
  }
}
