/// The most common passwords, which an attacker tries first.
///
/// The list has only passwords of eight or more characters, because shorter ones are refused anyway. It is a set of
/// lower-case texts; a look-up is O(length).
enum CommonPasswords {
  /// Whether a lower-case text is a common password.
  static func contains(_ folded: String) -> Bool {
    all.contains(folded)
  }

  /// The common passwords in lower case.
  static let all = Set(text.split { $0.isWhitespace }.map(String.init))

  private static let text = """
    !qaz2wsx 00000000 000000000 0000000000 01010101 01020304 0102030405 01234567 012345678
    0123456789 0987poiu 10101010 10203040 1020304050 11110000 11111111 111111111 1111111111
    11112222 111222333 112112112 11223344 1122334455 112233445566 12121212 121212121 1212121212
    12131415 123123123 1231231234 123123qwe 123321123 12341234 12344321 1234512345 123451234512345
    123454321 123456123456 123456654321 12345678 123456781 123456789 1234567890 1234567891
    12345678910 123456789a 123456789abc 123456789q 12345678a 12345679 1234567a 123456aa 123456ab
    123456qwerty 12345qwert 12348765 1234qwer 1234qwerasdf 123654789 123789456 123password
    123qwe123 123qweasd 123qweasdzxc 12qwaszx 13131313 147258369 1472583690 147852369 159357159
    159357456 159753159 19871987 19901990 1password 1q2w3e4r 1q2w3e4r! 1q2w3e4r5t 1q2w3e4r5t6y
    1qaz2wsx 1qaz2wsx3edc 1qazxsw2 20002000 20012001 20102010 20202020 20202021 22222222 22446688
    321321321 33333333 44444444 456456456 456789123 55555555 555555555 66666666 666666666 69696969
    741852963 77777777 77777777777 789456123 7894561230 87654321 876543210 88888888 888888888
    963852741 98765432 987654321 9876543210 99999999 999999999 a1234567 a12345678 a123456789
    a1b2c3d4 a1b2c3d4e5 a1s2d3f4 aa123456 aa12345678 aaaaaaaa aaaaaaaaaa aabbccdd ab123456
    abc12345 abc123456 abc1234567 abc123abc abc123def abcabcabc abcd1234 abcd12345 abcd123456
    abcdef12 abcdef123 abcdefgh abcdefghi abcdefghij access123 access14 admin123 admin1234
    admin12345 admin123456 admin@123 adminadmin administrator administrator1 airborne airplane
    alejandra alejandro alexander alexander1 alexandra alexandria america1 american andrew12
    andrew123 angel123 angelina anthony1 anthony123 anything aquarius argentina arsenal1
    arsenal123 arsenalfc asd12345 asdasd123 asdasdasd asdf1234 asdf12345 asdf;lkj asdfasdf
    asdfghjk asdfghjkl asdfghjkl1 asdfqwer ashley12 ashley123 asshole1 australia autumn2024
    avengers azerty123 azertyuiop babyboy1 babygirl babygirl1 babygirl123 banana123 bananas1
    bangladesh barcelona barcelona1 baseball baseball1 baseball12 basketball basketball1 batman12
    batman123 beautiful beautiful1 benjamin bestfriend beyonce1 birthday blackberry blackcat
    blackjack blessed1 blessing blink182 blueberry bluebird bluemoon brandon1 brandon123 brasil123
    brazil123 britney1 brittany broncos1 brother1 brothers budweiser bulldogs bullshit business
    butterfly butterfly1 california callofduty canada123 capricorn carolina catherine celtic1888
    champion champions change123 changeme changeme1 changeme123 charizard charlie1 charlie123
    charlotte cheesecake chelsea1 chelsea12 chelsea123 chelseafc chevrolet chicago1 chocolate
    chocolate1 christian christina christine christmas christmas1 christopher colombia commander
    computer computer1 computer123 cookie123 cookies1 corona12 correcthorsebatterystaple corvette
    counterstrike cowboys1 cowgirls cristiano cupcake1 cutiepie dallas22 daniel12 daniel123
    danielle danielle1 darkvader darthvader database december december1 default1 default123
    demo1234 demodemo deutschland diamond1 diamonds discovery doggy123 dolphin1 dolphins dragon12
    dragon123 dragonball dragonballz drowssap eagles12 elephant elizabeth elizabeth1 elvis123
    eminem12 england1 evanescence everton1 example1 familia1 family123 father12 february fernando
    ferrari1 finalfantasy fireball firebird firefly1 fireman1 fishing1 flower123 flowers1 football
    football1 football12 football123 forever1 forever21 fortnite francisco freedom1 freedom123
    friday13 friends1 friends123 friendship fuckoff1 fuckyou! fuckyou1 fuckyou123 fuckyou2
    gabriel1 gabriela gandalf1 gangster garfield germany1 godisgood godislove goodlife goodluck
    goodmorning gorgeous grandma1 greatest greenday greenday1 guest123 guest1234 hahaha123
    hahahaha halloween happiness happy123 happyday harley12 harleydavidson harry123 harrypotter
    heaven12 hello123 hello1234 hellohello hellokitty helloworld helloworld1 hockey12 hogwarts
    hunter12 hunter123 hunter22 hurricane ichliebedich ihateyou ilovegod iloveme1 iloveu123
    iloveyou iloveyou! iloveyou1 iloveyou12 iloveyou123 iloveyou143 iloveyou2 iloveyou3 india123
    indonesia indonesia1 infinity internet internet1 ironman1 isabella jackass1 jameson1 january1
    jennifer jennifer1 jessica1 jessica123 jesus123 jesuschrist jetaime1 jonathan jordan12
    jordan123 jordan23 joshua12 joshua123 justinbieber juventus juventus1 keyboard killer12
    killer123 kittycat l3tm31n1 ladygaga lakers24 lamborghini letmein! letmein1 letmein12
    letmein123 letmeinnow lifeisgood lightning linkinpark liverpool liverpool1 liverpoolfc
    lkjhgfdsa login123 lollipop lollipop1 london123 longhorn longhorns lordoftherings losangeles
    love1234 love12345 lovelife lovelove lovely123 loveme12 loveme123 loveyou1 loveyou2 madison1
    madonna1 manchester manchesterunited manunited marlboro marlboro1 master12 master123 matrix123
    matthew1 maverick maverick1 mercedes messi123 metallica metallica1 mexico123 michael1
    michael123 michaeljackson michaeljordan michelle michelle1 mickeymouse midnight minecraft
    minecraft1 mnbvcxz1 mommy123 monday123 monkey12 monkey123 monkeys1 montana1 moonlight mother12
    motorola mountain mustang1 mylove123 mypass123 mypassword mysql123 naruto123 nathaniel
    newpassword newyork1 newyorkcity nicholas nicole12 ninja123 nintendo nirvana1 nopassword
    nothing1 nothing123 november number1! numberone october1 onedirection oracle123 orange12
    p4ssw0rd p@ssw0rd p@ssw0rd! p@ssw0rd1 p@ssw0rd123 p@ssword p@ssword1 pa$$w0rd pa$$word
    packers1 pakistan pakistan1 pakistan123 panther1 panthers paradise paris123 pass1234 pass12345
    pass123456 passport passw0rd passw0rd! passw0rd1 password password! password#1 password0
    password00 password01 password1 password1! password11 password12 password123 password1234
    password12345 password2 password2020 password2021 password2022 password2023 password2024
    password2025 password3 password7 password99 password@ password@1 password@123 passwords
    passwort passwort1 passwort123 patricia patriots peanut123 perfect1 philippines phoenix1
    pikachu1 pineapple pirates1 playstation playstation3 poiuytrewq pokemon1 pokemon123 porsche1
    porsche911 portugal precious precious1 president princesa princess princess! princess1
    princess12 princess123 pumpkin1 purple12 purple123 pussycat q12345678 q1w2e3r4 q1w2e3r4t5
    q1w2e3r4t5y6 qazwsx123 qazwsxedc qazwsxedcrfv qwe12345 qwe123qwe qweasd123 qweasdzxc qweqweqwe
    qwer1234 qwer12345 qwerasdf qwerqwer qwerty00 qwerty01 qwerty1! qwerty11 qwerty12 qwerty123
    qwerty1234 qwerty12345 qwerty123456 qwerty99 qwertyasdf qwertyqwerty qwertyui qwertyuiop
    qwertyuiop1 qwertyuiop123 qwertzui qwertzuiop rainbow1 rainbow123 rangers1 raspberry
    realmadrid redskins redsox123 richard1 robert12 roblox123 rocknroll rockstar rockstar1
    ronaldo7 root1234 rootroot sagittarius samantha samantha1 sample123 samsung1 samsung123
    samuel12 sandiego saturday scarface scoobydoo scorpion seahawks sebastian secret12 secret123
    security security1 september server123 shadow12 shadow123 sister12 skywalker slipknot
    slipknot1 snickers snoopy12 snowball snowboard snowflake soccer10 soccer12 soccer123 softball
    something spiderman spiderman1 spongebob spring2024 starcraft starlight startrek starwars
    starwars1 steelers steelers1 stephanie strawberry stupid12 summer12 summer123 summer2023
    summer2024 sunday12 sunshine sunshine1 sunshine12 sunshine123 superman superman1 superman123
    supersecret superstar superstar1 sweetheart sweetie1 sweetpea swimming teamo123 teamomucho
    temp1234 temporary temppass tequiero tequieromucho terminator test1234 test12345 test123456
    tester123 testing1 testing123 testtest theodore thepassword thomas12 thunder1 thunderbird
    tiger123 tigers12 tinkerbell toor1234 topsecret truelove trustno1 unicorn1 universe user1234
    username username1 valentin valentina vampire1 vampires venezuela veronica victoria victoria1
    volleyball warcraft warrior1 warriors welcome01 welcome1 welcome1! welcome12 welcome123
    welcome2 welcome2023 welcome2024 welcome@123 whatever whatever1 william1 winter123 winter2023
    winter2024 wolverine worldofwarcraft xbox360live xxxxxxxx yankees1 yellow12 yourpassword
    zaq12wsx zaq1xsw2 zaq1zaq1 zxcvbnm, zxcvbnm1 zxcvbnm123 zxcvzxcv zxczxczxc zzzzzzzz
    """
}
