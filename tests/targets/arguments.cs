// Calls methods with known arguments and results, to be compared with those that `remora trace --arguments` records.
//
// arguments [values | deep | slow]
// values (the default): each case, with one line for each argument and result: `value METHOD NAME JSON`, where NAME `result` is the result.
// For the value of an enum that has a name, there is another line: `enum METHOD NAME TEXT`.
// The exit code is 7, or 8 if a method got or gave other values than it should: a hook has changed a register.
// deep: 20,000 calls of 6,000 paths.
// slow: one call that takes 30 ms among 1,000 that do not.
using System;
using System.Collections.Generic;
using System.Linq;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Threading;

namespace Passed
{
    enum Mood { Calm = 1, Angry = -7 }
    enum Small : byte { Least, Most = 255 }
    enum Huge : ulong { All = ulong.MaxValue }
    [Flags] enum Rights : short { None = 0, Read = 1, Write = 2, Both = 3, Share = 4 }

    struct Pair { public long First; public double Second; }
    struct Tiny { public byte One; public byte Two; }
    struct Large { public long A, B, C, D, E; }
    struct Mixed { public string Text; public int Number; }

    class Shelf<T>
    {
        readonly T kept;

        public Shelf(T value, int count)
        {
            Told.Arguments("Passed.Shelf..ctor", ("count", count));
            kept = value;
        }

        // Shared code for references: a hidden argument.
        public T Get(string name, int number)
        {
            Told.Arguments("Passed.Shelf.Get", ("name", name), ("number", number));
            return kept;
        }

        public static int Count<U>(U other, short first, string last)
        {
            Told.Arguments("Passed.Shelf.Count", ("first", first), ("last", last), ("result", first + 1));
            return first + 1;
        }
    }

    static class Told
    {
        static readonly List<string> lines = new List<string>();
        public static bool IsWrong;

        public static void Arguments(string method, params (string, object)[] values)
        {
            foreach (var (name, value) in values) lines.Add($"value {method} {name} {Json(value)}");
        }

        // The values of enums, as numbers and by their names.
        public static void Enums(string method, params (string, Enum)[] values)
        {
            foreach (var (name, value) in values)
            {
                lines.Add($"value {method} {name} {value:D}");
                string text = value.ToString().Replace(", ", "|");
                if (text != value.ToString("D")) lines.Add($"enum {method} {name} {text}");
            }
        }

        public static void Expect<T>(T expected, T found)
        {
            if (EqualityComparer<T>.Default.Equals(expected, found)) return;
            Console.WriteLine($"wrong: {found} in place of {expected}");
            IsWrong = true;
        }

        static string Json(object value)
        {
            switch (value)
            {
                case null: return "null";
                case bool flag: return flag ? "true" : "false";
                case char letter: return Text(letter.ToString());
                case string text: return Text(text);
                case float number: return ((double)number).ToString("R", System.Globalization.CultureInfo.InvariantCulture);
                case double number: return number.ToString("R", System.Globalization.CultureInfo.InvariantCulture);
                case decimal number: return Text(number.ToString(System.Globalization.CultureInfo.InvariantCulture));
                case Guid identifier: return Text(identifier.ToString("D"));
                case DateTime date: return Text(date.ToString("yyyy-MM-dd'T'HH:mm:ss.FFFFFFF", System.Globalization.CultureInfo.InvariantCulture) + (date.Kind == DateTimeKind.Utc ? "Z" : ""));
                case TimeSpan span: return Text(span.Ticks % TimeSpan.TicksPerSecond == 0 ? span.ToString("c") : span.ToString("c").TrimEnd('0'));
                default: return Convert.ToString(value, System.Globalization.CultureInfo.InvariantCulture);
            }
        }

        static string Text(string text) =>
            "\"" + string.Concat(text.Select(letter => "\\u" + ((int)letter).ToString("x4"))) + "\"";

        public static void Print() => lines.ForEach(Console.WriteLine);
    }

    class Cases
    {
        static sbyte Bytes(sbyte one, byte two) { Told.Arguments("Passed.Cases.Bytes", ("one", one), ("two", two), ("result", one)); return one; }
        static byte Byte(byte one) { Told.Arguments("Passed.Cases.Byte", ("one", one), ("result", one)); return one; }
        static short Shorts(short one, ushort two) { Told.Arguments("Passed.Cases.Shorts", ("one", one), ("two", two), ("result", one)); return one; }
        static ushort Short(ushort one) { Told.Arguments("Passed.Cases.Short", ("one", one), ("result", one)); return one; }
        static int Ints(int one, uint two) { Told.Arguments("Passed.Cases.Ints", ("one", one), ("two", two), ("result", one)); return one; }
        static uint Int(uint one) { Told.Arguments("Passed.Cases.Int", ("one", one), ("result", one)); return one; }
        static long Longs(long one, ulong two) { Told.Arguments("Passed.Cases.Longs", ("one", one), ("two", two), ("result", one)); return one; }
        static ulong Long(ulong one) { Told.Arguments("Passed.Cases.Long", ("one", one), ("result", one)); return one; }
        static IntPtr Native(IntPtr one, UIntPtr two) { Told.Arguments("Passed.Cases.Native", ("one", (long)one), ("two", (ulong)two), ("result", (long)one)); return one; }
        static bool Bool(bool yes, bool no) { Told.Arguments("Passed.Cases.Bool", ("yes", yes), ("no", no), ("result", yes)); return yes; }
        static char Char(char letter) { Told.Arguments("Passed.Cases.Char", ("letter", letter), ("result", letter)); return letter; }
        static float Float(float one) { Told.Arguments("Passed.Cases.Float", ("one", one), ("result", one)); return one; }
        static double Double(double one) { Told.Arguments("Passed.Cases.Double", ("one", one), ("result", one)); return one; }
        static Mood Enums(Mood mood, Small small, Huge huge) { Told.Enums("Passed.Cases.Enums", ("mood", mood), ("small", small), ("huge", huge), ("result", mood)); return mood; }
        static Mood Unnamed(Mood mood, Rights rights) { Told.Enums("Passed.Cases.Unnamed", ("mood", mood), ("rights", rights), ("result", mood)); return mood; }
        static Rights Sets(Rights one, Rights two, Rights none) { Told.Enums("Passed.Cases.Sets", ("one", one), ("two", two), ("none", none), ("result", one)); return one; }
        // Of another assembly, one of them inside of a class.
        static DayOfWeek Elsewhere(DayOfWeek day, System.IO.FileAccess access, Environment.SpecialFolder folder)
        {
            Told.Enums("Passed.Cases.Elsewhere", ("day", day), ("access", access), ("folder", folder), ("result", day));
            return day;
        }

        // Enums with many constants, and what comes after them.
        static System.Net.HttpStatusCode Coded(System.Net.HttpStatusCode code, ConsoleColor color, DayOfWeek day, int last)
        {
            Told.Enums("Passed.Cases.Coded", ("code", code), ("color", color), ("day", day), ("result", code));
            Told.Arguments("Passed.Cases.Coded", ("last", last));
            return code;
        }

        // Structures of the core library, which are shown, in registers and on the stack.
        static decimal Money(int a, decimal price, string b, decimal other, decimal third, decimal fourth, double c)
        {
            Told.Arguments("Passed.Cases.Money", ("a", a), ("price", price), ("b", b), ("other", other), ("third", third), ("fourth", fourth), ("c", c), ("result", price));
            return price;
        }

        static Guid Named(Guid id, Guid? none, long last) { Told.Arguments("Passed.Cases.Named", ("id", id), ("last", last), ("result", id)); return id; }
        static DateTime Dated(DateTime date, DateTime utc) { Told.Arguments("Passed.Cases.Dated", ("date", date), ("utc", utc), ("result", date)); return date; }
        static TimeSpan Lasting(TimeSpan span, TimeSpan other) { Told.Arguments("Passed.Cases.Lasting", ("span", span), ("other", other), ("result", span)); return span; }

        static string Text(string text, string none, string empty) { Told.Arguments("Passed.Cases.Text", ("text", text), ("none", none), ("empty", empty), ("result", text)); return text; }
        static string Nothing(string text) { Told.Arguments("Passed.Cases.Nothing", ("text", text), ("result", null)); return null; }

        // More of each kind than there are registers.
        static double Many(int a, double b, long c, float d, string e, double f, byte g, double h, short i, double j, ulong k, double l,
            char m, double n, bool o, double p, sbyte q, double r)
        {
            Told.Arguments("Passed.Cases.Many", ("a", a), ("b", b), ("c", c), ("d", d), ("e", e), ("f", f), ("g", g), ("h", h), ("i", i),
                ("j", j), ("k", k), ("l", l), ("m", m), ("n", n), ("o", o), ("p", p), ("q", q), ("r", r), ("result", b + r));
            return b + r;
        }

        // Structures in registers and on the stack, which are not shown, between values that are.
        static Pair Structures(int a, Pair pair, string b, Tiny tiny, double c, Large large, long d, Mixed mixed, string e, Vector4 vector, float f)
        {
            Told.Arguments("Passed.Cases.Structures", ("a", a), ("b", b), ("c", c), ("d", d), ("e", e), ("f", f));
            Told.Expect(5L, pair.First);
            Told.Expect(0.5, pair.Second);
            Told.Expect(9, tiny.One + tiny.Two);
            Told.Expect(15L, large.A + large.B + large.C + large.D + large.E);
            Told.Expect("mixed", mixed.Text);
            Told.Expect(10f, vector.X + vector.Y + vector.Z + vector.W);
            return pair;
        }

        static Large ByBuffer(int a, string b)
        {
            Told.Arguments("Passed.Cases.ByBuffer", ("a", a), ("b", b));
            return new Large { A = a, E = b.Length };
        }

        static Large ByBufferGeneric<T>(int a, T other, string b)
        {
            Told.Arguments("Passed.Cases.ByBufferGeneric", ("a", a), ("b", b));
            return new Large { A = a, E = b.Length };
        }

        static Mixed Mix(string a, int b)
        {
            Told.Arguments("Passed.Cases.Mix", ("a", a), ("b", b));
            return new Mixed { Text = a, Number = b };
        }

        // What they point to is not shown.
        static void ByReference(ref int number, out string text, in double ratio, int last)
        {
            Told.Arguments("Passed.Cases.ByReference", ("last", last));
            number++;
            text = "out";
        }

        static object Objects(object one, int[] numbers, Cases other, int last)
        {
            Told.Arguments("Passed.Cases.Objects", ("last", last));
            return one;
        }

        int Instance(int number, string text)
        {
            Told.Arguments("Passed.Cases.Instance", ("number", number), ("text", text), ("result", number + text.Length));
            return number + text.Length;
        }

        static int Throws(int number, string text)
        {
            Told.Arguments("Passed.Cases.Throws", ("number", number), ("text", text));
            if (number > 0) throw new InvalidOperationException(text);
            return number;
        }

        // As they were at the beginning.
        static string Changes(int number, string text)
        {
            Told.Arguments("Passed.Cases.Changes", ("number", number), ("text", text), ("result", "changed"));
            number = -1;
            text = "changed";
            return number < 0 ? text : null;
        }

        static string Collects(string text, int number)
        {
            Told.Arguments("Passed.Cases.Collects", ("text", text), ("number", number), ("result", text + number));
            string made = text + number;
            GC.Collect();
            return made;
        }

        public static void Values()
        {
            Told.Expect((sbyte)-128, Bytes(-128, 255));
            Told.Expect((byte)200, Byte(200));
            Told.Expect((short)-32768, Shorts(-32768, 65535));
            Told.Expect((ushort)60000, Short(60000));
            Told.Expect(int.MinValue, Ints(int.MinValue, uint.MaxValue));
            Told.Expect(4000000000, Int(4000000000));
            Told.Expect(long.MinValue, Longs(long.MinValue, ulong.MaxValue));
            Told.Expect(ulong.MaxValue - 1, Long(ulong.MaxValue - 1));
            Told.Expect(new IntPtr(-5), Native(new IntPtr(-5), new UIntPtr(5)));
            Told.Expect(true, Bool(true, false));
            Told.Expect('é', Char('é'));
            Told.Expect(-1.25f, Float(-1.25f));
            Told.Expect(Math.PI, Double(Math.PI));
            Told.Expect(Mood.Angry, Enums(Mood.Angry, Small.Most, Huge.All));
            Told.Expect((Mood)5, Unnamed((Mood)5, (Rights)12));
            Told.Expect(Rights.Read | Rights.Share, Sets(Rights.Read | Rights.Share, Rights.Both | Rights.Share, Rights.None));
            Told.Expect(DayOfWeek.Friday, Elsewhere(DayOfWeek.Friday, System.IO.FileAccess.ReadWrite, Environment.SpecialFolder.System));
            Told.Expect(System.Net.HttpStatusCode.NotFound, Coded(System.Net.HttpStatusCode.NotFound, ConsoleColor.Cyan, DayOfWeek.Monday, 79));
            Told.Expect(12.50m, Money(1, 12.50m, "b", decimal.MinValue, -0.005m, decimal.MaxValue, 0.5));
            var id = new Guid("0f8fad5b-d9cb-469f-a165-70867728950e");
            Told.Expect(id, Named(id, null, 3));
            var date = new DateTime(2026, 11, 29, 17, 6, 35, 120);
            Told.Expect(date, Dated(date, new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc)));
            Told.Expect(TimeSpan.FromDays(-1.5), Lasting(TimeSpan.FromDays(-1.5), TimeSpan.FromMilliseconds(1500)));
            Told.Expect("tëxt", Text("tëxt", null, ""));
            Told.Expect<string>(null, Nothing("a"));
            Told.Expect(19.75, Many(1, 2.5, 3, 4.5f, "five", 6.5, 7, 8.5, 9, 10.5, 11, 12.5, 'm', 14.5, true, 16.5, -17, 17.25));
            var pair = new Pair { First = 5, Second = 0.5 };
            var large = new Large { A = 1, B = 2, C = 3, D = 4, E = 5 };
            var mixed = new Mixed { Text = "mixed", Number = 3 };
            Told.Expect(pair, Structures(1, pair, "b", new Tiny { One = 4, Two = 5 }, 3.5, large, 4, mixed, "e", new Vector4(1, 2, 3, 4), 6.5f));
            Told.Expect(4L, ByBuffer(6, "four").E);
            Told.Expect(5L, ByBufferGeneric(7, "other", "fives").E + ByBufferGeneric(7, 0.5, "").E);
            Told.Expect("mix", Mix("mix", 8).Text);
            int number = 1;
            ByReference(ref number, out string text, 0.5, 77);
            Told.Expect((2, "out"), (number, text));
            Told.Expect<object>("object", Objects("object", new[] { 1 }, null, 78));
            Told.Expect(9, new Cases().Instance(5, "four"));
            try { Throws(1, "as asked"); } catch (InvalidOperationException thrown) { Told.Expect("as asked", thrown.Message); }
            Told.Expect("changed", Changes(1, "before"));
            Told.Expect("collected3", Collects("collected", 3));
            Told.Expect("kept", new Shelf<string>("kept", 11).Get("by name", 12));
            Told.Expect(0.5, new Shelf<double>(0.5, 13).Get("of double", 14));
            Told.Expect(22, Shelf<string>.Count(new object(), 21, "shared"));
            Told.Expect(24, Shelf<int>.Count(0.5, 23, "own"));
            Told.Expect(LongText, Text(LongText, null, LongText));
        }

        static readonly string LongText = string.Concat(Enumerable.Range(0, 1000).Select(number => (char)('a' + number % 26)));

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Deep(int depth) => depth == 0 ? 0 : 1 + Deep(depth - 1);

        public static void ManyPaths()
        {
            Told.Expect(5999, Deep(5999));
            for (int round = 0; round < 14; round++) Told.Expect(999, Deep(999));
        }

        [MethodImpl(MethodImplOptions.NoInlining)]
        static int Waits(int milliseconds)
        {
            if (milliseconds > 0) Thread.Sleep(milliseconds);
            return milliseconds;
        }

        public static void Slow()
        {
            for (int round = 0; round < 1000; round++) Waits(round == 500 ? 30 : 0);
        }
    }

    static class Program
    {
        static int Main(string[] arguments)
        {
            switch (arguments.FirstOrDefault())
            {
                case "deep": Cases.ManyPaths(); break;
                case "slow": Cases.Slow(); break;
                default: Cases.Values(); break;
            }
            Told.Print();
            return Told.IsWrong ? 8 : 7;
        }
    }
}
