// Holds values of every kind in fields, arrays and statics, and then stands still: what a snapshot says of them is known beforehand.
//
// values
// `ready` when all is there.
using System;
using System.Collections.Generic;
using System.Runtime.InteropServices;

#pragma warning disable 169, 414, 649 // Fields that only a snapshot reads.

namespace Known
{
    enum Colour : short { Red = 1, Green = 2, Blue = -3 }
    enum Plain { Zero, One }
    [Flags] enum Access : byte { None = 0, Read = 1, Write = 2, All = 7 }
    enum Wide : ulong { Most = ulong.MaxValue }

    struct Point { public int X, Y; }
    struct Mixed { public byte Small; public string Name; public long Large; public Point At; public short Last; }
    struct Pair<A, B> { public A First; public B Second; }
    struct Timed { public byte Before; public DateTime At; public bool After; }
    [StructLayout(LayoutKind.Explicit)] struct Union { [FieldOffset(0)] public int Number; [FieldOffset(0)] public byte Low; [FieldOffset(4)] public short Next; }
    [StructLayout(LayoutKind.Sequential, Pack = 1)] struct Packed { public byte A; public int B; public byte C; }
    struct Nothing { }
    [StructLayout(LayoutKind.Auto)] struct Automatic { public byte A, B, C; }
    struct Around<T> { public byte Before; public T Value; public byte After; }
    struct Told { public byte Before; public (short, byte) Value; public byte After; }

    class Primitives
    {
        public bool True = true, False;
        public char Letter = 'x', Quote = '\'', Accent = 'é';
        public sbyte SignedByte = -100;
        public byte Byte = 200;
        public short Short = -30000;
        public ushort UnsignedShort = 60000;
        public int Int = -2000000000;
        public uint UnsignedInt = 4000000000;
        public long Long = -9000000000000000000;
        public ulong UnsignedLong = 18000000000000000000;
        public float Float = 0.1f;
        public double Double = -1.5e300;
        public IntPtr Native = new IntPtr(-5);
        public UIntPtr UnsignedNative = new UIntPtr(5);
        public string Text = "a \"known\" text", Empty = "", None;
        public Colour Colour = Colour.Blue;
        public Plain Plain = (Plain)5;
        public Access Access = Access.Read | Access.Write, Everything = Access.All, Nobody;
        public Wide Wide = Wide.Most;
        public int Property { get; set; } = 7;
    }

    class Times
    {
        public DateTime Utc = new DateTime(2024, 2, 29, 12, 34, 56, DateTimeKind.Utc).AddTicks(1234567);
        public DateTime Unspecified = new DateTime(1999, 12, 31);
        public TimeSpan Span = new TimeSpan(1, 2, 3, 4, 5);
        public TimeSpan Negative = TimeSpan.FromMilliseconds(-1500);
        public Guid Guid = new Guid("12345678-9abc-def0-1234-56789abcdef0");
        public decimal Price = -12345.6789m;
        public decimal Most = decimal.MaxValue;
        public DateTimeOffset Offset = new DateTimeOffset(2024, 1, 2, 3, 4, 5, TimeSpan.FromHours(2));
        public Timed Timed = new Timed { Before = 1, At = new DateTime(2001, 2, 3), After = true };
    }

    class Nested
    {
        public Point Point = new Point { X = 3, Y = -4 };
        public Mixed Mixed = new Mixed { Small = 9, Name = "in a value", Large = 1L << 40, At = new Point { X = 5, Y = 6 }, Last = -7 };
        public int? Has = 42, Has_not;
        public Point? Maybe = new Point { X = 1, Y = 2 };
        public DateTime? When = new DateTime(2020, 1, 1);
        public (int, string) Tuple = (1, "two");
        public (byte A, long B, bool C) Three = (1, 2, true);
        public KeyValuePair<string, int> Entry = new KeyValuePair<string, int>("key", 11);
        public Pair<int, Pair<string, byte>> Pairs = new Pair<int, Pair<string, byte>> { First = 1, Second = new Pair<string, byte> { First = "deep", Second = 2 } };
        public Union Union = new Union { Number = 0x01020304, Next = 5 };
        public Packed Packed = new Packed { A = 1, B = 2, C = 3 };
        public Nothing Nothing;
        public Colour? Shade = Colour.Green;
    }

    /// What the runtime lays out, smaller than a word or as large, where it stands in something else.
    class Tuples
    {
        public (int, int)? Ints = (3, 4);
        public (bool, int)? Flagged = (true, 5);
        public (byte, byte)? Bytes = (6, 7);
        public (float, float)? Floats = (1.5f, 2.5f);
        public (int, int, int)? Three = (8, 9, 10);
        public Around<(byte, byte, byte)> OfThree = new Around<(byte, byte, byte)> { Before = 1, Value = (2, 3, 4), After = 5 };
        public Around<(byte, int, byte)> OfMixed = new Around<(byte, int, byte)> { Before = 1, Value = (2, 3, 4), After = 5 };
        public Around<(int, int)?> OfMaybe = new Around<(int, int)?> { Before = 1, Value = (2, 3), After = 4 };
        public Around<Automatic> OfAutomatic = new Around<Automatic> { Before = 1, Value = new Automatic { A = 2, B = 3, C = 4 }, After = 5 };
        public Around<KeyValuePair<int, byte>> OfEntry = new Around<KeyValuePair<int, byte>> { Before = 1, Value = new KeyValuePair<int, byte>(2, 3), After = 4 };
        public Around<Around<(byte, byte, byte, byte, byte)>> Deep = new Around<Around<(byte, byte, byte, byte, byte)>>
            { Before = 1, Value = new Around<(byte, byte, byte, byte, byte)> { Before = 2, Value = (3, 4, 5, 6, 7), After = 8 }, After = 9 };
        public (byte, int, byte, int, byte, int, byte, string) Eight = (1, 2, 3, 4, 5, 6, 7, "eight");
        public (int, int, int, int, int, int, int, int, (int, int))? Nine = (1, 2, 3, 4, 5, 6, 7, 8, (9, 10));
        // Of this one the runtime tells the layout, beside which what is computed is held.
        public object Boxed = new Told { Before = 1, Value = (2, 3), After = 4 };
    }

    class Base { public int Same = 1; protected long Inherited = 2; }
    class Middle<T> : Base { public T Generic; }
    class Derived : Middle<string> { public new int Same = 3; public Derived() { Generic = "of the middle"; } }

    class References
    {
        public object Boxed = 5, BoxedEnum = Colour.Red, BoxedPoint = new Point { X = 8, Y = 9 }, BoxedTime = new DateTime(2000, 1, 1);
        public object Nobody;
        public Base Other = new Derived();
        public Action Delegate;
        public IComparable Interface = "comparable";
        public Generic<int> OfInt = new Generic<int> { Value = 1 };
        public Generic<Point> OfPoint = new Generic<Point> { Value = new Point { X = 10, Y = 11 } };
        public Generic<string> OfString = new Generic<string> { Value = "generic" };
        public void Run() { }
    }

    class Generic<T> { public T Value; public T[] Many; public Dictionary<string, T> Map; }

    class Arrays
    {
        public int[] Ints = { 1, -2, 3 };
        public byte[] Bytes = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
        public bool[] Bools = { true, false };
        public string[] Texts = { "first", null, "third" };
        public Point[] Points = { new Point { X = 1, Y = 2 }, new Point { X = 3, Y = 4 } };
        public Mixed[] Many = { new Mixed { Small = 1, Name = "one", Large = 10, At = new Point { X = 2 }, Last = 3 }, new Mixed { Small = 4, Name = "two" } };
        public int[,] Square = { { 1, 2, 3 }, { 4, 5, 6 } };
        public Array From = Array.CreateInstance(typeof(int), new[] { 2 }, new[] { 5 });
        public Colour[] Colours = { Colour.Red, Colour.Blue };
        public int?[] Maybe = { 1, null };
        public DateTime[] Times = { new DateTime(2010, 1, 1) };
        public object[] Objects = { 1, "two", null };
        public long[] Long = new long[5000];
        public int[][] Jagged = { new[] { 1 }, new[] { 2, 3 } };
    }

    class Statics
    {
        public const int Constant = 77;
        public const string Said = "constant";
        public static int Number = 123;
        public static readonly string Text = "static text";
        public static Base Instance = new Derived();
        public static Point At = new Point { X = 21, Y = 22 };
        public static Colour Shade = Colour.Green;
        public static DateTime Since = new DateTime(2015, 5, 5);
        public static Cached[] Cache;
        public static KeyValuePair<string, Cached> Pair;
        public static object Nothing;
        [ThreadStatic] public static int OfThread;
    }

    class Cached { public int Number; }

    // Each of its instantiations has fields of its own.
    class PerType<T>
    {
        public static List<T> Items = new List<T>();
        public static T Last;
        public static int Count;
    }

    class Link { public Link Next; public long Number; }

    // Initialized when `later` is said.
    static class Later
    {
        public static object Value = new object();
        public static DateTime At = new DateTime(2020, 2, 2);
        public static int Number = 5;
        static Later() { }
    }

    static class NeverTouched { public static object Value = new object(); }

    static class Program
    {
        static readonly List<object> kept = new List<object>();

        static Link chain;

        // What they point to the runtime does not tell.
        static unsafe void Pointers()
        {
            var pointers = new byte*[3];
            pointers[1] = (byte*)0x1234;
            kept.Add(pointers);
            kept.Add(new void*[2, 2]);
        }

        static void Main(string[] arguments)
        {
            var references = new References();
            references.Delegate = references.Run;
            var arrays = new Arrays();
            arrays.From.SetValue(50, 5);
            arrays.From.SetValue(60, 6);
            kept.AddRange(new object[] { new Primitives(), new Times(), new Nested(), new Derived(), references, arrays, new Tuples() });
            Pointers();
            Statics.Cache = new[] { new Cached { Number = 1 } };
            Statics.OfThread = 5;
            Statics.Pair = new KeyValuePair<string, Cached>("the key", new Cached { Number = 2 });
            PerType<int>.Items.Add(41);
            PerType<int>.Last = 42;
            PerType<string>.Last = "the last text";
            PerType<string>.Count = 3;
            kept.AddRange(new object[] { new PerType<int>(), new PerType<string>() });
            GC.KeepAlive(Statics.Instance);
            for (int left = arguments.Length > 0 ? int.Parse(arguments[0]) : 0; left > 0; left--)
                chain = new Link { Next = chain, Number = left };
            Console.WriteLine("ready");
            while (Console.ReadLine() is string line && line != "quit")
            {
                if (line == "later")
                {
                    Statics.Number = 999;
                    Later.Number++;
                }
                Console.WriteLine(line);
            }
        }
    }
}
