// Counts its own calls, to be compared with those that `remora trace` counts.
//
// calls [counts | times | forever | exit | crash]
// counts (the default): every method of `Counted` counts its calls, and those that an exception ends. Ends with one line for each:
// `count NAME CALLS EXCEPTIONS`. The exit code is 7, or 8 if a result was wrong: a hook has changed a register.
// times: one line for each timed method, `time NAME NANOSECONDS`, by a clock that the method reads itself.
// forever: prints `ready` and goes on calling until its input ends.
// exit: `Environment.Exit(9)` below some calls.
// crash: an exception that nothing catches.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.Linq;
using System.Numerics;
using System.Reflection;
using System.Reflection.Emit;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

public static class Tally
{
    // Calls and exceptions by name.
    public static readonly ConcurrentDictionary<string, long[]> All = new ConcurrentDictionary<string, long[]>();
    static readonly Func<string, long[]> Fresh = name => new long[2];

    public static void Call(string name) => Interlocked.Increment(ref All.GetOrAdd(name, Fresh)[0]);
    public static void Threw(string name) => Interlocked.Increment(ref All.GetOrAdd(name, Fresh)[1]);

    public static bool Wrong;

    public static void Expect<T>(T expected, T found)
    {
        if (!EqualityComparer<T>.Default.Equals(expected, found))
        {
            Console.WriteLine($"wrong: {found} in place of {expected}");
            Wrong = true;
        }
    }
}

struct Pair { public long First; public double Second; }
struct Large { public long A, B, C, D, E; }

class Box<T>
{
    readonly T value;
    public Box(T value) { Tally.Call("Box..ctor"); this.value = value; }
    public T Get() { Tally.Call("Box.Get"); return value; }
}

interface IShape { int Sides(); }
abstract class Shape : IShape
{
    public abstract int Sides();
    public virtual int Twice() { Tally.Call("Shape.Twice"); return 2 * Sides(); }
}
class Triangle : Shape
{
    public override int Sides() { Tally.Call("Triangle.Sides"); return 3; }
}
class Square : Shape
{
    public override int Sides() { Tally.Call("Square.Sides"); return 4; }
    public override int Twice() { Tally.Call("Square.Twice"); return base.Twice(); }
}

static class Counted
{
    // Without attributes: the JIT would inline many of these.
    static int Fibonacci(int n) { Tally.Call("Counted.Fibonacci"); return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2); }
    static bool Even(int n) { Tally.Call("Counted.Even"); return n == 0 || Odd(n - 1); }
    static bool Odd(int n) { Tally.Call("Counted.Odd"); return n != 0 && Even(n - 1); }

    static int Deep(int n) { Tally.Call("Counted.Deep"); return n == 0 ? 0 : 1 + Deep(n - 1); }

    public static void Recursion()
    {
        Tally.Call("Counted.Recursion");
        Tally.Expect(987, Fibonacci(16));
        Tally.Expect(true, Even(100));
        Tally.Expect(3000, Deep(3000));
    }

    static void Throw(int depth)
    {
        Tally.Call("Counted.Throw");
        Tally.Threw("Counted.Throw");
        if (depth > 0) Throw(depth - 1);
        throw new InvalidOperationException("thrown");
    }

    static int CatchInTheMiddle(int depth)
    {
        Tally.Call("Counted.CatchInTheMiddle");
        try { Throw(depth); return 0; }
        catch (InvalidOperationException) { return Small(1); }
    }

    static int Small(int n) { Tally.Call("Counted.Small"); return n + 1; }

    static void Rethrow()
    {
        Tally.Call("Counted.Rethrow");
        Tally.Threw("Counted.Rethrow");
        try { Throw(2); }
        catch (InvalidOperationException) { Small(2); throw; }
    }

    static void Replace()
    {
        Tally.Call("Counted.Replace");
        Tally.Threw("Counted.Replace");
        try { Throw(1); }
        catch (InvalidOperationException inner) { throw new ApplicationException("another", inner); }
    }

    static void Finally()
    {
        Tally.Call("Counted.Finally");
        Tally.Threw("Counted.Finally");
        try { Throw(1); }
        finally { Small(3); CatchInTheMiddle(2); }
    }

    static void ThrowInFinally()
    {
        Tally.Call("Counted.ThrowInFinally");
        Tally.Threw("Counted.ThrowInFinally");
        try { Throw(0); }
        finally { Throw(1); }
    }

    static bool IsWanted(Exception exception, bool wanted)
    {
        Tally.Call("Counted.IsWanted");
        try { Throw(0); } catch (InvalidOperationException) { }
        return wanted;
    }

    static void Filter(bool wanted)
    {
        Tally.Call("Counted.Filter");
        if (!wanted) Tally.Threw("Counted.Filter");
        try { Throw(3); }
        catch (InvalidOperationException exception) when (IsWanted(exception, wanted)) { Small(4); }
    }

    static void Loop()
    {
        Tally.Call("Counted.Loop");
        for (int round = 0; round < 50; round++)
        {
            try { Throw(0); }
            catch (InvalidOperationException) { continue; }
            finally { Small(round); }
        }
    }

    public static void ByReflection() { Tally.Call("Counted.ByReflection"); Tally.Threw("Counted.ByReflection"); Throw(1); }

    static void Quietly(Action action)
    {
        Tally.Call("Counted.Quietly");
        try { action(); }
        catch (Exception) { Small(5); }
    }

    public static void Exceptions()
    {
        Tally.Call("Counted.Exceptions");
        for (int round = 0; round < 3; round++)
        {
            Tally.Expect(2, CatchInTheMiddle(20));
            Quietly(Rethrow);
            Quietly(Replace);
            Quietly(Finally);
            Quietly(ThrowInFinally);
            Filter(true);
            Quietly(FilterUnwanted);
            Loop();
            Quietly(Reflected);
            Small(round);
        }
    }

    static void FilterUnwanted() { Tally.Call("Counted.FilterUnwanted"); Tally.Threw("Counted.FilterUnwanted"); Filter(false); }

    static void Reflected()
    {
        Tally.Call("Counted.Reflected");
        Tally.Threw("Counted.Reflected");
        typeof(Counted).GetMethod("ByReflection").Invoke(null, null);
    }

    static T Echo<T>(T value) { Tally.Call("Counted.Echo"); return value; }

    public static void Generics()
    {
        Tally.Call("Counted.Generics");
        for (int round = 0; round < 10; round++)
        {
            Tally.Expect(round, new Box<int>(round).Get());
            Tally.Expect("a", new Box<string>("a").Get());
            Tally.Expect(1.5, new Box<double>(1.5).Get());
            Tally.Expect("b", Echo<object>("b"));
            Tally.Expect(2L, Echo(2L));
            Tally.Expect(new Guid(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), Echo(new Guid(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)));
        }
    }

    static double Registers(double a, double b, double c, double d, double e, double f, double g, double h, double i,
        long j, long k, long l, long m, long n, long o, long p)
    {
        Tally.Call("Counted.Registers");
        return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + j + 2 * k + 3 * l + 4 * m + 5 * n + 6 * o + 7 * p;
    }

    static Pair MakePair(long first, double second) { Tally.Call("Counted.MakePair"); return new Pair { First = first, Second = second }; }
    static Large MakeLarge(long a) { Tally.Call("Counted.MakeLarge"); return new Large { A = a, B = 2 * a, C = 3 * a, D = 4 * a, E = 5 * a }; }
    static Vector4 Turn(Vector4 one, Vector4 other, float factor) { Tally.Call("Counted.Turn"); return one + other * factor; }
    static Vector<int> Wide(Vector<int> one, Vector<int> other) { Tally.Call("Counted.Wide"); return one + other; }
    static ReadOnlySpan<char> Cut(ReadOnlySpan<char> text, int length) { Tally.Call("Counted.Cut"); return text.Slice(0, length); }
    static decimal Exact(decimal one, decimal other) { Tally.Call("Counted.Exact"); return one * other; }
    static (long, string, double) Tuple(long number) { Tally.Call("Counted.Tuple"); return (number, "t", number / 2.0); }
    static ref int Place(int[] numbers, int at) { Tally.Call("Counted.Place"); return ref numbers[at]; }

    public static void Values()
    {
        Tally.Call("Counted.Values");
        var numbers = new int[4];
        for (int round = 1; round <= 300; round++)
        {
            Tally.Expect(45.0 * round + 28, Registers(round, round, round, round, round, round, round, round, round, 1, 1, 1, 1, 1, 1, 1));
            var pair = MakePair(round, round * 0.5);
            Tally.Expect((long)round, pair.First);
            Tally.Expect(round * 0.5, pair.Second);
            Tally.Expect(5L * round, MakeLarge(round).E);
            Tally.Expect(new Vector4(1 + round, 2, 3, 4 + 2 * round), Turn(new Vector4(1, 2, 3, 4), new Vector4(1, 0, 0, 2), round));
            Tally.Expect(new Vector<int>(round + 5), Wide(new Vector<int>(round), new Vector<int>(5)));
            Tally.Expect("ab", Cut("abc".AsSpan(), 2).ToString());
            Tally.Expect(1.5m * round, Exact(1.5m, round));
            Tally.Expect((round, "t", round / 2.0), Tuple(round));
            Place(numbers, round % 4) += 1;
        }
        Tally.Expect(300, numbers.Sum());
    }

    static async Task<int> Steps(int steps)
    {
        Tally.Call("Counted.Steps");
        Tally.Call("Counted.<Steps>.MoveNext");
        int sum = 0;
        for (int step = 0; step < steps; step++)
        {
            await Task.Yield();
            // Each resumption is a call of MoveNext.
            Tally.Call("Counted.<Steps>.MoveNext");
            sum += Small(step);
        }
        return sum;
    }

    static IEnumerable<int> Numbers(int count)
    {
        for (int number = 0; number < count; number++)
        {
            Tally.Call("Counted.<Numbers>.MoveNext");
            yield return number;
        }
        Tally.Call("Counted.<Numbers>.MoveNext");
    }

    public static void Continuations()
    {
        Tally.Call("Counted.Continuations");
        var tasks = Enumerable.Range(0, 20).Select(_ => Steps(25)).ToArray();
        Task.WaitAll(tasks);
        Tally.Expect(20 * 325, tasks.Sum(task => task.Result));
        int sum = 0;
        foreach (int number in Numbers(40)) sum += number;
        Tally.Expect(780, sum);
    }

    static void Work()
    {
        Tally.Call("Counted.Work");
        for (int round = 0; round < 200; round++) Small(round);
        CatchInTheMiddle(3);
    }

    public static void Threads()
    {
        Tally.Call("Counted.Threads");
        for (int wave = 0; wave < 3; wave++)
        {
            var threads = Enumerable.Range(0, 20).Select(_ => new Thread(Work)).ToList();
            threads.ForEach(thread => thread.Start());
            threads.ForEach(thread => thread.Join());
        }
    }

    public static void Calls()
    {
        Tally.Call("Counted.Calls");
        Func<int, int> byDelegate = Small;
        var shapes = new Shape[] { new Triangle(), new Square() };
        for (int round = 0; round < 30; round++)
        {
            Tally.Expect(round + 1, byDelegate(round));
            Tally.Expect(6, shapes[0].Twice());
            Tally.Expect(8, shapes[1].Twice());
            Tally.Expect(3, ((IShape)shapes[0]).Sides());
        }
        var dynamic = new DynamicMethod("Unhooked", typeof(int), new[] { typeof(int) });
        var code = dynamic.GetILGenerator();
        code.Emit(OpCodes.Ldarg_0);
        code.Emit(OpCodes.Call, typeof(Counted).GetMethod("Small", BindingFlags.Static | BindingFlags.NonPublic));
        code.Emit(OpCodes.Ret);
        var unhooked = (Func<int, int>)dynamic.CreateDelegate(typeof(Func<int, int>));
        Tally.Expect(8, unhooked(7));
    }

    static int counter;
    static int Next { get { Tally.Call("Counted.get_Next"); return counter++; } }

    // Long enough for on-stack replacement, and called often enough for all tiers.
    public static void Tiers()
    {
        Tally.Call("Counted.Tiers");
        for (int wave = 0; wave < 4; wave++)
        {
            for (int round = 0; round < 50000; round++) counter += Next & 1;
            Small(wave);
            Thread.Sleep(150);
        }
        Hot();
        Hot();
    }

    static long Hot()
    {
        Tally.Call("Counted.Hot");
        long sum = 0;
        for (int round = 0; round < 3000000; round++) sum += round ^ counter;
        for (int round = 0; round < 1000; round++) sum += Small(round);
        return sum;
    }

    // In IL, since C# has no tail prefix: Down calls Up, Up calls Down, both as tail calls, until the number is 0.
    public static void Tails()
    {
        Tally.Call("Counted.Tails");
        var assembly = AssemblyBuilder.DefineDynamicAssembly(new AssemblyName("tails"), AssemblyBuilderAccess.Run);
        var type = assembly.DefineDynamicModule("tails").DefineType("Tails", TypeAttributes.Public);
        var attributes = MethodAttributes.Public | MethodAttributes.Static;
        var few = new[] { typeof(int) };
        var many = new[] { typeof(int), typeof(long), typeof(long), typeof(long), typeof(long), typeof(long), typeof(long), typeof(long), typeof(double) };
        var down = type.DefineMethod("Down", attributes, typeof(int), few);
        var up = type.DefineMethod("Up", attributes, typeof(int), few);
        // Its arguments need more of the stack than its caller has: the runtime needs a helper.
        var wide = type.DefineMethod("Wide", attributes, typeof(int), many);
        var widely = type.DefineMethod("Widely", attributes, typeof(int), few);
        Tailed(down, up, few);
        Tailed(up, down, few);
        Tailed(widely, wide, many);
        Tailed(wide, widely, few);
        var made = type.CreateType();
        Tally.Expect(77, (int)made.GetMethod("Down").Invoke(null, new object[] { 1000 }));
        Tally.Expect(77, (int)made.GetMethod("Widely").Invoke(null, new object[] { 1000 }));
        Small(1);
    }

    static void Tailed(MethodBuilder method, MethodBuilder next, Type[] arguments)
    {
        Tally.Call("Counted.Tailed");
        var code = method.GetILGenerator();
        var end = code.DefineLabel();
        code.Emit(OpCodes.Ldstr, "Tails." + method.Name);
        code.Emit(OpCodes.Call, typeof(Tally).GetMethod("Call"));
        code.Emit(OpCodes.Ldarg_0);
        code.Emit(OpCodes.Brfalse, end);
        code.Emit(OpCodes.Ldarg_0);
        code.Emit(OpCodes.Ldc_I4_1);
        code.Emit(OpCodes.Sub);
        foreach (var argument in arguments.Skip(1))
        {
            if (argument == typeof(double)) code.Emit(OpCodes.Ldc_R8, 1.5); else code.Emit(OpCodes.Ldc_I8, 5L);
        }
        code.Emit(OpCodes.Tailcall);
        code.Emit(OpCodes.Call, next);
        code.Emit(OpCodes.Ret);
        code.MarkLabel(end);
        code.Emit(OpCodes.Ldc_I4, 77);
        code.Emit(OpCodes.Ret);
    }
}

static class Timed
{
    static readonly double Nanoseconds = 1e9 / Stopwatch.Frequency;

    // Time of the process in this method, and in those that it calls.
    public static readonly Dictionary<string, long> Spent = new Dictionary<string, long>();

    // The caller reads the clock: it may have ended by a tail call when this begins.
    static void Add(string name, long ticks)
    {
        long time = (long)(ticks * Nanoseconds);
        lock (Spent) Spent[name] = (Spent.TryGetValue(name, out long before) ? before : 0) + time;
    }

    public static void Outer()
    {
        long begun = Stopwatch.GetTimestamp();
        for (int round = 0; round < 20; round++) { Inner(5); Sleep(2); }
        try { Fail(10); } catch (InvalidOperationException) { Inner(10); }
        Add("Timed.Outer", Stopwatch.GetTimestamp() - begun);
    }

    static void Inner(int milliseconds)
    {
        long begun = Stopwatch.GetTimestamp();
        while ((Stopwatch.GetTimestamp() - begun) * Nanoseconds < milliseconds * 1e6) { }
        Add("Timed.Inner", Stopwatch.GetTimestamp() - begun);
    }

    static void Sleep(int milliseconds)
    {
        long begun = Stopwatch.GetTimestamp();
        Thread.Sleep(milliseconds);
        Add("Timed.Sleep", Stopwatch.GetTimestamp() - begun);
    }

    static void Fail(int milliseconds)
    {
        long begun = Stopwatch.GetTimestamp();
        Thread.Sleep(milliseconds);
        Add("Timed.Fail", Stopwatch.GetTimestamp() - begun);
        throw new InvalidOperationException("after a while");
    }

    // Calls so cheap that the hooks cost more: only the subtraction makes their caller's time right.
    public static int Cheap(int calls)
    {
        int sum = 0;
        for (int call = 0; call < calls; call++) sum = Step(sum);
        return sum;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Step(int sum) => sum * 31 + 7;
}

static class Program
{
    static int Main(string[] arguments)
    {
        switch (arguments.FirstOrDefault() ?? "counts")
        {
            case "times":
                Timed.Outer();
                foreach (var entry in Timed.Spent) Console.WriteLine($"time {entry.Key} {entry.Value}");
                return 7;
            case "cheap":
                Timed.Cheap(1000);
                Thread.Sleep(300);
                var watch = Stopwatch.StartNew();
                Timed.Cheap(int.Parse(arguments[1]));
                Console.WriteLine($"time Timed.Cheap {watch.Elapsed.TotalMilliseconds * 1e6:0}");
                return 7;
            case "forever":
                new Thread(Forever) { IsBackground = true, Name = "forever" }.Start();
                while (Interlocked.Read(ref rounds) < 1000) Thread.Yield();
                Console.WriteLine("ready");
                while (Console.ReadLine() is string line && line != "quit") { }
                Console.WriteLine($"rounds {Interlocked.Read(ref rounds)}");
                return 7;
            case "exit":
                Below(5);
                return 1;
            case "crash":
                throw new InvalidOperationException("nothing catches this");
            default:
                return Counts();
        }
    }

    static long rounds;

    static void Forever()
    {
        while (true) { Round(); }
    }

    static void Round() => Interlocked.Increment(ref rounds);

    static void Below(int depth)
    {
        if (depth == 0) Environment.Exit(9);
        Below(depth - 1);
    }

    static int Counts()
    {
        Counted.Recursion();
        Counted.Exceptions();
        Counted.Generics();
        Counted.Values();
        Counted.Continuations();
        Counted.Threads();
        Counted.Calls();
        Counted.Tiers();
        Counted.Tails();
        Counted.Exceptions();
        foreach (var entry in Tally.All.OrderBy(entry => entry.Key))
        {
            Console.WriteLine($"count {entry.Key} {entry.Value[0]} {entry.Value[1]}");
        }
        return Tally.Wrong ? 8 : 7;
    }
}
