// Hashes, encrypts and signs all the time: its time goes to OpenSSL, which has no frame pointers.
//
// crypto
// `count` answers the rounds so far. Without an OpenSSL that the runtime knows it fails at once.
using System;
using System.Security.Cryptography;
using System.Threading;

static class Crypto
{
    static long rounds;

    static void Main()
    {
        var started = new ManualResetEventSlim();
        new Thread(() => Work(started)) { IsBackground = true, Name = "crypto" }.Start();
        started.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "count" ? Interlocked.Read(ref rounds).ToString() : "unknown");
    }

    static void Work(ManualResetEventSlim started)
    {
        byte[] data = new byte[64 * 1024];
        using (SHA256 hash = SHA256.Create())
        using (RSA rsa = RSA.Create(2048))
        using (Aes aes = Aes.Create())
        {
            while (true)
            {
                Hash(hash, data);
                Sign(rsa, data);
                Encrypt(aes, data);
                Interlocked.Increment(ref rounds);
                started.Set();
            }
        }
    }

    static void Hash(SHA256 hash, byte[] data)
    {
        for (int i = 0; i < 20; i++)
            hash.ComputeHash(data);
    }

    static void Sign(RSA rsa, byte[] data)
    {
        byte[] signature = rsa.SignData(data, 0, 256, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1);
        if (!rsa.VerifyData(data, 0, 256, signature, HashAlgorithmName.SHA256, RSASignaturePadding.Pkcs1))
            throw new CryptographicException("the signature is wrong");
    }

    static void Encrypt(Aes aes, byte[] data)
    {
        using (ICryptoTransform encryptor = aes.CreateEncryptor())
            encryptor.TransformFinalBlock(data, 0, data.Length);
    }
}
