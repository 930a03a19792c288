// Uses CPU time in methods of the framework, each called by a method of its own. Which callers does a profile lose?
//
// framework_cpu
// The methods take turns of about a millisecond in one thread. `methods` answers their names, `count` the rounds so far, and `shares`
// the share of each since `reset`, by the clock of the thread.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;
using System.Text.Json;
using System.Text.RegularExpressions;
using System.Threading;

static class FrameworkCpu
{
    const MethodImplOptions Plain = MethodImplOptions.NoInlining | MethodImplOptions.AggressiveOptimization;
    const int ThreadCpu = 3;
    const long Turn = 1000000;
    const int WarmRounds = 60;

    struct Time
    {
        public long Seconds;
        public long Nanoseconds;
    }

    [DllImport("libc")]
    static extern int clock_gettime(int clock, out Time time);

    static readonly Action<int>[] methods =
    {
        ToBase64, CompareStrings, MatchRegex, WriteJson, ReadJson, EncodeUtf8, DecodeUtf8, SortNumbers, SortStrings, LookUp, FillDictionary,
        QueryLinq, GroupLinq, BuildString, MultiplyBig, PowerBig, Trigonometry, CopySpans, DivideDecimals, FormatGuids, ParseDates, FormatDates,
        CombineHashes, CopyBuffers, ParseNumbers, FormatNumbers, SplitStrings, ParseAddresses, SearchStrings, Compress,
    };
    static readonly int[] counts = new int[methods.Length];
    static readonly long[] taken = new long[methods.Length];
    static long rounds;
    static long reading = long.MaxValue;
    static volatile bool reset;
    static object sink;

    static readonly byte[] bytes = Enumerable.Range(0, 4096).Select(i => (byte)(i * 7 % 251)).ToArray();
    static readonly byte[] target = new byte[4096];
    static readonly char[] letters = new char[8192];
    static readonly string text = string.Join(" ", Enumerable.Range(0, 200).Select(i => "order" + i * 31 % 97));
    static readonly string other = text.Substring(0, text.Length - 1) + "!";
    static readonly string[] words = text.Split(' ');
    static readonly int[] numbers = Enumerable.Range(0, 1000).Select(i => i * 7919 % 1009).ToArray();
    static readonly Dictionary<string, int> known = words.Distinct().ToDictionary(word => word, word => word.Length);
    static readonly Regex regex = new Regex("(?<name>[a-z]+)(?<number>[0-9]+) order4");
    static readonly string json = JsonSerializer.Serialize(numbers);
    static readonly byte[] utf8 = Encoding.UTF8.GetBytes(text + "äöü");
    static readonly BigInteger big = BigInteger.Pow(new BigInteger(12345678901234567), 60);

    static void Main()
    {
        var warm = new ManualResetEventSlim();
        new Thread(() => Work(warm)) { IsBackground = true, Name = "framework" }.Start();
        warm.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref rounds).ToString();
            case "methods": return string.Join(" ", methods.Select(method => method.Method.Name));
            case "reset": reset = true; SpinWait.SpinUntil(() => !reset); return "reset";
            case "shares":
                double all = Math.Max(1, taken.Sum());
                return string.Join(" ", methods.Select((method, i) => string.Format(CultureInfo.InvariantCulture, "{0}={1:F5}", method.Method.Name, taken[i] / all)));
            default: return "unknown";
        }
    }

    static void Work(ManualResetEventSlim warm)
    {
        for (int i = 0; i < 10000; i++)
        {
            long start = Now();
            reading = Math.Min(reading, Now() - start);
        }
        // After these rounds, recompilation is over.
        for (int round = 0; round < WarmRounds; round++)
            for (int i = 0; i < methods.Length; i++)
                counts[i] = Fit(methods[i], Math.Max(1, counts[i]));
        warm.Set();
        while (true)
            Round();
    }

    /// How often a method must do its work to last a turn.
    static int Fit(Action<int> method, int trial)
    {
        long start = Now();
        method(trial);
        return (int)Math.Max(1, Turn / 10 * (long)trial / Math.Max(1, Now() - start)) * 10;
    }

    [MethodImpl(Plain)]
    static void Round()
    {
        if (reset)
        {
            Array.Clear(taken, 0, taken.Length);
            reset = false;
        }
        for (int i = 0; i < methods.Length; i++)
        {
            long start = Now();
            methods[i](counts[i]);
            taken[i] += Now() - start - reading;
        }
        Interlocked.Increment(ref rounds);
    }

    static long Now()
    {
        clock_gettime(ThreadCpu, out Time time);
        return time.Seconds * 1000000000 + time.Nanoseconds;
    }

    [MethodImpl(Plain)]
    static void ToBase64(int count)
    {
        for (int i = 0; i < count; i++)
            sink = Convert.ToBase64String(bytes);
    }

    [MethodImpl(Plain)]
    static void CompareStrings(int count)
    {
        int sum = 0;
        for (int i = 0; i < count; i++)
            sum += string.Compare(text, other, StringComparison.OrdinalIgnoreCase);
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void MatchRegex(int count)
    {
        for (int i = 0; i < count; i++)
            sink = regex.Match(text);
    }

    [MethodImpl(Plain)]
    static void WriteJson(int count)
    {
        for (int i = 0; i < count; i++)
            sink = JsonSerializer.Serialize(numbers);
    }

    [MethodImpl(Plain)]
    static void ReadJson(int count)
    {
        for (int i = 0; i < count; i++)
            sink = JsonSerializer.Deserialize<int[]>(json);
    }

    [MethodImpl(Plain)]
    static void EncodeUtf8(int count)
    {
        for (int i = 0; i < count; i++)
            Encoding.UTF8.GetBytes(text, 0, text.Length, target, 0);
    }

    [MethodImpl(Plain)]
    static void DecodeUtf8(int count)
    {
        for (int i = 0; i < count; i++)
            Encoding.UTF8.GetChars(utf8, 0, utf8.Length, letters, 0);
    }

    [MethodImpl(Plain)]
    static void SortNumbers(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var copy = (int[])numbers.Clone();
            Array.Sort(copy);
            sink = copy;
        }
    }

    [MethodImpl(Plain)]
    static void SortStrings(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var copy = (string[])words.Clone();
            Array.Sort(copy, StringComparer.Ordinal);
            sink = copy;
        }
    }

    [MethodImpl(Plain)]
    static void LookUp(int count)
    {
        int sum = 0;
        for (int i = 0; i < count; i++)
            if (known.TryGetValue(words[i % words.Length], out int length))
                sum += length;
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void FillDictionary(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var filled = new ConcurrentDictionary<int, int>();
            for (int j = 0; j < 50; j++)
                filled[j] = i;
            sink = filled;
        }
    }

    [MethodImpl(Plain)]
    static void QueryLinq(int count)
    {
        for (int i = 0; i < count; i++)
            sink = numbers.Where(number => number % 3 == 0).Select(number => number * 2).OrderBy(number => number).ToList();
    }

    [MethodImpl(Plain)]
    static void GroupLinq(int count)
    {
        for (int i = 0; i < count; i++)
            sink = words.GroupBy(word => word.Length).ToDictionary(group => group.Key, group => group.Count());
    }

    [MethodImpl(Plain)]
    static void BuildString(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var builder = new StringBuilder();
            for (int j = 0; j < 50; j++)
                builder.Append("line ").Append(j).Append(',');
            sink = builder.ToString();
        }
    }

    [MethodImpl(Plain)]
    static void MultiplyBig(int count)
    {
        for (int i = 0; i < count; i++)
            sink = big * big;
    }

    [MethodImpl(Plain)]
    static void PowerBig(int count)
    {
        for (int i = 0; i < count; i++)
            sink = BigInteger.ModPow(12345, 67, big);
    }

    [MethodImpl(Plain)]
    static void Trigonometry(int count)
    {
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += Math.Sin(i) + Math.Pow(i, 0.3) + Math.Log(i + 1);
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void CopySpans(int count)
    {
        for (int i = 0; i < count; i++)
        {
            bytes.AsSpan().CopyTo(target);
            target.AsSpan().Reverse();
        }
    }

    [MethodImpl(Plain)]
    static void DivideDecimals(int count)
    {
        decimal sum = 0;
        for (int i = 0; i < count; i++)
            sum += 12345.6789m / (i + 1);
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void FormatGuids(int count)
    {
        for (int i = 0; i < count; i++)
            sink = Guid.Parse(new Guid(i, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10).ToString("D")).ToString("N");
    }

    [MethodImpl(Plain)]
    static void ParseDates(int count)
    {
        long sum = 0;
        for (int i = 0; i < count; i++)
            sum += DateTime.Parse("2026-11-23T10:11:12", CultureInfo.InvariantCulture).Ticks;
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void FormatDates(int count)
    {
        for (int i = 0; i < count; i++)
            sink = new DateTime(2026, 11, 23).AddSeconds(i).ToString("dddd, dd MMMM yyyy HH:mm:ss", CultureInfo.InvariantCulture);
    }

    [MethodImpl(Plain)]
    static void CombineHashes(int count)
    {
        int sum = 0;
        for (int i = 0; i < count; i++)
        {
            var hash = new HashCode();
            hash.Add(text);
            hash.Add(i);
            sum += hash.ToHashCode();
        }
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void CopyBuffers(int count)
    {
        for (int i = 0; i < count; i++)
            Buffer.BlockCopy(bytes, 0, target, 0, bytes.Length);
    }

    [MethodImpl(Plain)]
    static void ParseNumbers(int count)
    {
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += double.Parse("12345.678901", CultureInfo.InvariantCulture) + int.Parse("7654321", CultureInfo.InvariantCulture);
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void FormatNumbers(int count)
    {
        for (int i = 0; i < count; i++)
            sink = (i * 1.37).ToString("N3", CultureInfo.InvariantCulture) + i.ToString("X8");
    }

    [MethodImpl(Plain)]
    static void SplitStrings(int count)
    {
        for (int i = 0; i < count; i++)
            sink = text.Split(' ');
    }

    [MethodImpl(Plain)]
    static void ParseAddresses(int count)
    {
        for (int i = 0; i < count; i++)
            sink = new Uri("https://example.com:8080/orders/" + i + "?first=1&second=a%20b").PathAndQuery;
    }

    [MethodImpl(Plain)]
    static void SearchStrings(int count)
    {
        int sum = 0;
        for (int i = 0; i < count; i++)
            sum += text.IndexOf("order98", StringComparison.Ordinal) + text.Replace("order1", "o").Length;
        sink = sum == 0 ? text : other;
    }

    [MethodImpl(Plain)]
    static void Compress(int count)
    {
        for (int i = 0; i < count; i++)
        {
            var output = new MemoryStream();
            using (var stream = new DeflateStream(output, CompressionLevel.Fastest))
                stream.Write(bytes, 0, bytes.Length);
            sink = output;
        }
    }
}
